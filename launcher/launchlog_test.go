package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/worker"
)

func logAt(t *testing.T, path string) *launchLog {
	t.Helper()
	g, err := openLaunchLog(path, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readIDs(t *testing.T, path string) (ids []string) {
	t.Helper()
	logged, err := ReadLog(path, "boot-1")
	must(t, err)
	for _, l := range logged {
		ids = append(ids, l.ReceiptID)
	}
	return ids
}

func TestNoLaunchLogIsAnEmptyOne(t *testing.T) {
	logged, err := ReadLog(filepath.Join(t.TempDir(), "launch.log"), "boot-1")
	if err != nil || len(logged) != 0 {
		t.Errorf("%v, %v", logged, err)
	}
}

func TestTheLaunchLogTellsWhoIsAlive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.log")
	g := logAt(t, path)
	self, err := startTimeOf(os.Getpid())
	must(t, err)
	process := func(receipt string, pid int, start int64) {
		must(t, g.announce(receipt))
		must(t, g.started(receipt, &worker.Process{PID: pid, StartTime: start}))
	}
	process("this very process", os.Getpid(), self)
	process("its pid, used again", os.Getpid(), self-1)
	process("nobody", 1<<22+1, 5)
	must(t, g.announce("announced only"))
	process("launched twice", 7, 7)
	must(t, g.announce("launched twice")) // the last launch counts: nothing is known of its process

	got, err := ReadLog(path, "boot-1")
	must(t, err)
	me := worker.Process{BootID: "boot-1", PID: os.Getpid(), StartTime: self}
	again, nobody := me, worker.Process{BootID: "boot-1", PID: 1<<22 + 1, StartTime: 5}
	again.StartTime--
	want := []worker.Logged{
		{ReceiptID: "this very process", BootID: "boot-1", Process: &me, Alive: true},
		{ReceiptID: "its pid, used again", BootID: "boot-1", Process: &again},
		{ReceiptID: "nobody", BootID: "boot-1", Process: &nobody},
		{ReceiptID: "announced only", BootID: "boot-1"},
		{ReceiptID: "launched twice", BootID: "boot-1"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// After another boot the same numbers mean nothing.
	later, err := ReadLog(path, "boot-2")
	must(t, err)
	for _, l := range later {
		if l.Alive {
			t.Errorf("%s lives on into another boot", l.ReceiptID)
		}
	}
}

// Whatever part of the last line a kill left, the lines before it stand, and
// the line that the next daemon writes is not swallowed.
func TestATornLastLineHidesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.log")
	g := logAt(t, path)
	must(t, g.announce("first"))
	must(t, g.announce("torn"))
	whole, err := os.ReadFile(path)
	must(t, err)
	firstLine := strings.Index(string(whole), "\n") + 1
	for cut := firstLine; cut < len(whole); cut++ {
		torn := filepath.Join(t.TempDir(), "launch.log")
		must(t, os.WriteFile(torn, whole[:cut], 0o600))
		if got := readIDs(t, torn); !reflect.DeepEqual(got, []string{"first"}) {
			t.Fatalf("cut at %d: %q", cut, got)
		}
		next := logAt(t, torn)
		must(t, next.announce("next"))
		if got := readIDs(t, torn); len(got) < 2 || got[0] != "first" || got[len(got)-1] != "next" {
			t.Fatalf("cut at %d, then a line: %q", cut, got)
		}
	}
}

func TestLinesThatAreNoneArePassedOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.log")
	must(t, os.WriteFile(path, []byte("\n\x00\x00\n{}\n{\"launch\":\"a\",\"boot\":\"boot-1\"}\n{\"launch\":\"b\"{\"launch\":\"c\",\"boot\":\"boot-1\"}\n"+
		"{\"process\":\"unannounced\",\"pid\":1}\n[1]\n"), 0o600))
	if got := readIDs(t, path); !reflect.DeepEqual(got, []string{"a"}) {
		t.Errorf("%q", got)
	}
}

func TestAFileThatIsNoLaunchLogIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.log")
	must(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	if _, err := ReadLog(path, "boot-1"); err == nil {
		t.Error("a megabyte of zeros was read as a launch log")
	}
	if _, err := openLaunchLog(path, "boot-1"); err == nil {
		t.Error("a megabyte of zeros was opened as a launch log")
	}
}

// The file stays small, and never loses an open run.
func TestSettledRunsAreTrimmedAndOpenOnesKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.log")
	g := logAt(t, path)
	open := func(i int) bool { return i%100 == 0 }
	const runs = 20_000
	largest := int64(0)
	for i := range runs {
		id := fmt.Sprintf("cron-slot-v1.run-%d", i)
		must(t, g.announce(id))
		must(t, g.started(id, &worker.Process{PID: i + 1, StartTime: 1}))
		if !open(i) {
			must(t, g.settle(id))
		}
		largest = max(largest, g.size)
	}
	info, err := os.Stat(path)
	must(t, err)
	equal(t, "size known", g.size, info.Size())
	if largest > trimAboveBytes+1024 {
		t.Errorf("it grew to %d bytes", largest)
	}
	if _, err := os.Stat(path + ".new"); err == nil {
		t.Error("the replacement was left behind")
	}
	found := make(map[string]bool)
	logged, err := ReadLog(path, "boot-1")
	must(t, err)
	for _, l := range logged {
		found[l.ReceiptID] = l.Process != nil
	}
	for i := 0; i < runs; i += 100 {
		if !found[fmt.Sprintf("cron-slot-v1.run-%d", i)] {
			t.Fatalf("the open run %d is gone, or its process", i)
		}
	}
}

func TestMostlyOpenRunsAreNotRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.log")
	g := logAt(t, path)
	long := strings.Repeat("x", 1000)
	for i := range 600 {
		must(t, g.announce(fmt.Sprintf("%s-%d", long, i)))
	}
	before := g.size
	for i := range 200 {
		must(t, g.settle(fmt.Sprintf("%s-%d", long, i)))
	}
	equal(t, "size", g.size, before)
}

// What an earlier daemon left is kept for recovery until it is settled, or
// until this daemon launches its first run.
func TestWhatAnEarlierDaemonLeftIsKeptForRecovery(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.log")
	earlier := logAt(t, path)
	for i := range 3000 { // more than is trimmed at
		must(t, earlier.announce(fmt.Sprintf("cron-slot-v1.%060d.earlier", i)))
	}
	g := logAt(t, path)
	run := func(i int) {
		id := fmt.Sprintf("own-%d", i)
		must(t, g.announce(id))
		must(t, g.settle(id))
	}
	// A recovery of many runs settles them one by one, and may die half-way.
	for i := range 2000 {
		must(t, g.settle(fmt.Sprintf("cron-slot-v1.%060d.earlier", i)))
	}
	kept := make(map[string]bool)
	for _, id := range readIDs(t, path) {
		kept[id] = true
	}
	for i := 2000; i < 3000; i++ {
		if !kept[fmt.Sprintf("cron-slot-v1.%060d.earlier", i)] {
			t.Fatalf("the run %d is gone before it was settled", i)
		}
	}
	for i := range 20_000 { // enough for the next trims
		run(i)
	}
	for _, id := range readIDs(t, path) {
		if strings.HasSuffix(id, ".earlier") {
			t.Fatalf("%s is still there, and its recovery is long over", id)
		}
	}
}

// The file stays small also where no daemon lives long enough to settle much.
func TestShortLivesDoNotGrowTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.log")
	for life := range 400 {
		g := logAt(t, path)
		for i := range 20 {
			id := fmt.Sprintf("cron-slot-v1.%080d.%d", life, i)
			must(t, g.announce(id))
			must(t, g.started(id, &worker.Process{PID: i + 1, StartTime: 1}))
			if i != 19 { // the last one is left open by a kill
				must(t, g.settle(id))
			}
		}
		if g.size > 2*trimAboveBytes {
			t.Fatalf("%d bytes after %d lives", g.size, life+1)
		}
	}
}

func TestBootIDIsStable(t *testing.T) {
	first, second := BootID(), BootID()
	if first == "" || first != second {
		t.Errorf("%q, then %q", first, second)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// A log keeps its identity for as long as it exists, over trims too; a new one,
// or one that has none, gets its own.
func TestALogHasOneIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.log")
	first, err := LogID(path)
	must(t, err)
	again, err := LogID(path)
	must(t, err)
	equal(t, "identity", again, first)
	g := logAt(t, path)
	must(t, g.announce("open"))
	for i := range 4000 {
		receipt := fmt.Sprintf("run-%d-%s", i, strings.Repeat("x", 100))
		must(t, g.announce(receipt))
		must(t, g.settle(receipt))
	}
	if g.size > trimAboveBytes {
		t.Fatal("it was not trimmed")
	}
	again, err = LogID(path)
	must(t, err)
	equal(t, "identity after a trim", again, first)
	other, err := LogID(filepath.Join(t.TempDir(), "launch.log"))
	must(t, err)
	if first == "" || other == first {
		t.Errorf("another log has the identity %q", other)
	}
	bare := filepath.Join(t.TempDir(), "launch.log")
	must(t, os.WriteFile(bare, []byte("{\"launch\":\"a\",\"boot\":\"b\"}\n{\"torn"), 0o600))
	id, err := LogID(bare)
	must(t, err)
	again, err = LogID(bare)
	must(t, err)
	equal(t, "identity given later", again, id)
	equal(t, "runs of it", fmt.Sprint(readIDs(t, bare)), "[a]")
}
