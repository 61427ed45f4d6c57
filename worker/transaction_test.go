package worker

import (
	"fmt"
	"go/ast"
	"go/parser"
	"slices"
	"strings"
	"testing"
)

// Nothing that runs between BEGIN and COMMIT may wait: for a channel, a lock of
// others, a process, a file, the network, a log, or the clock. This file reads
// the source, follows every call from the inside of a transaction, and finds
// what breaks that.
//
// The call graph is larger than the truth: a function that is only named counts
// as called, so does every value that is ever put into a function field that is
// called, and every implementation of an interface method. It ends at other
// modules and at the standard library, whose functions are allowed or banned by
// name. It does not see a function that travels through a map or slice made
// outside the transaction, unless that is a package-level table.

const modulePath = "github.com/rota-scheduler/rota"

// transactionBegins are the functions that open a transaction. Another one
// belongs here, and what it does inside belongs to transactionRoots.
var transactionBegins = []string{"worker.(*Worker).attempt", "worker.(*Worker).readBack", "worker.(*Worker).restoreArmed", "worker.(*Worker).slice", "worker.(*Worker).start"}

// transactionClosures are the functions whose last argument runs in a transaction.
var transactionClosures = []string{"worker.(*Worker).commitTurn", "worker.(*Worker).attempt", "worker.(*Worker).startTurn"}

// transactionRoots is what runs in one beside those closures and the methods of turn.
var transactionRoots = []string{
	"worker.(*Worker).applyBatch", "worker.(*Worker).duties", "worker.(*Worker).closedTo", "worker.(*Worker).read", "worker.load", "worker.openRuns",
	"store.Meta", "store.LastSeq", "store.RestoreArmed", "store.(*Store).Begin", "store.(*Tx).Commit", "store.(*Tx).Rollback",
}

// impliedMethods are called by the standard library where no call is to be seen.
var impliedMethods = []string{"Error", "Unwrap", "Is", "As", "String", "LogValue", "Less", "Len", "Swap",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "Scan", "Value"}

// banned functions by package; "*" bans all of them. Types and variables of a
// banned package (an error to compare with) are no calls.
var banned = map[string][]string{
	"os": {"*"}, "os/exec": {"*"}, "os/signal": {"*"}, "syscall": {"*"}, "golang.org/x/sys/unix": {"*"}, "golang.org/x/sys/windows": {"*"},
	"net": {"*"}, "net/http": {"*"}, "io/fs": {"*"}, "io/ioutil": {"*"}, "log": {"*"}, "log/slog": {"*"},
	"math/rand": {"*"}, "math/rand/v2": {"*"}, "crypto/rand": {"*"},
	"path/filepath": {"Abs", "EvalSymlinks", "Glob", "Walk", "WalkDir"},
	"fmt":           {"Print", "Printf", "Println"},
	"time":          {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "LoadLocation"},
	"sync":          {"(*WaitGroup).Wait", "(*Cond).Wait", "(*Mutex).Lock", "(*RWMutex).Lock", "(*RWMutex).RLock"},
}

// exemption allows one ban in one function; without what, all that the function
// does.
type exemption struct{ in, what, reason string }

var exemptions = []exemption{
	{"schedule.zoneData", "", "opens the zone data once in the life of a process; a program that asks for its zone at the start has done so before any transaction"},
	{"schedule.(*zoneSource).load", "", "reads one zone, a few kilobytes, the first time it is named; from memory unless ZONEINFO names a directory"},
	{"schedule.LoadZone", "sync.(*RWMutex).RLock", "held for one look into a map"},
	{"schedule.LoadZone", "sync.(*RWMutex).Lock", "held for one write into a map, after the zone was read"},
	{"worker.readJobs", "go statement", "decodes at a start what the transaction has read, and touches nothing else"},
	{"worker.readJobs", "channel send", "waits for that decoding alone, which waits for nobody"},
	{"worker.readJobs", "range over a channel", "is that decoding"},
	{"worker.readJobs", "channel receive", "waits for the end of that decoding, of at most 1,280 rows"},
}

func TestNothingWaitsInsideATransaction(t *testing.T) {
	g := readSource(t, ".")
	for _, where := range g.callers("store.(*Store).Begin") {
		if !slices.Contains(transactionBegins, where) {
			t.Errorf("%s begins a transaction and is not in transactionBegins", where)
		}
	}
	used := map[int]bool{}
	for i, e := range exemptions {
		if e.what == "" {
			used[i] = g.cut(e.in)
		}
	}
	g.addClosures(t, transactionClosures)
	for _, name := range transactionRoots {
		g.addFunc(t, name)
	}
	g.addMethods(t, "worker.turn")
	for _, f := range g.funcs {
		if f.Signature().Recv() != nil && slices.Contains(impliedMethods, f.Name()) {
			g.reach(f, nil)
		}
	}
	for _, f := range g.walk() {
		i := slices.IndexFunc(exemptions, func(e exemption) bool { return e.in == f.in && e.what == f.what })
		if i < 0 {
			t.Errorf("%s: %s in %s\n\treached by %s", f.at, f.what, f.in, strings.Join(g.path(f.in), " < "))
			continue
		}
		used[i] = true
	}
	for i, e := range exemptions {
		if !used[i] {
			t.Errorf("the exemption of %s in %s is of no use any more", e.what, e.in)
		}
	}
	// A graph that lost its edges would find nothing.
	for _, name := range []string{"store.InsertHistory", "store.(*Tx).Exec", "worker.(*turn).interrupt", "schedule.Due", "worker/job.Create"} {
		if _, reached := g.from[name]; !reached {
			t.Errorf("%s is not reached: the call graph has a hole", name)
		}
	}
	t.Logf("%d functions of %d run inside a transaction", len(g.from), len(g.funcs))
}

// transactionFixture breaks every rule once. A line that ends in "// bad: X"
// must be found as X, and no other line.
const transactionFixture = `package fixture

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	mathrand "math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

type turn struct{ clock clock }

type clock struct{ now func() time.Time }

func newClock() clock {
	c := clock{now: func() time.Time { return time.Now() }} // bad: time.Now
	return c
}

type waiter interface{ wait(ch chan int) }

type sleepy struct{}

func (sleepy) wait(ch chan int) { time.Sleep(1) } // bad: time.Sleep

type other struct{ ch chan int }

func (o other) unused() { <-o.ch } // not reached

var table = map[string]func(chan int){
	"send":    func(ch chan int) { ch <- 1 }, // bad: channel send
	"receive": receive,
}

func receive(ch chan int) { <-ch } // bad: channel receive

func generic[T any](ch chan T) {
	for range ch { // bad: range over a channel
	}
}

func commitTurn(apply func(*turn)) { apply(nil) }

func begin() {
	commitTurn(func(t *turn) {
		go receive(nil) // bad: go statement
		t.all(nil)
	})
	time.Sleep(2) // outside
}

func (t *turn) all(w waiter) {
	t.clock.now()
	w.wait(nil)
	table["send"](nil)
	generic[int](nil)
	select {} // bad: select
}

func (t *turn) calls(wg *sync.WaitGroup, c *sync.Cond, mu *sync.Mutex, rw *sync.RWMutex, fsys fs.FS) {
	wg.Wait() // bad: sync.(*WaitGroup).Wait
	c.Wait() // bad: sync.(*Cond).Wait
	mu.Lock() // bad: sync.(*Mutex).Lock
	rw.Lock() // bad: sync.(*RWMutex).Lock
	rw.RLock() // bad: sync.(*RWMutex).RLock
	_, _ = fs.ReadFile(fsys, "x") // bad: io/fs.ReadFile
	_, _ = os.ReadFile("x") // bad: os.ReadFile
	_ = exec.Command("x") // bad: os/exec.Command
	_, _ = net.Dial("unix", "x") // bad: net.Dial
	_ = syscall.Getpid() // bad: syscall.Getpid
	log.Print("x") // bad: log.Print
	slog.Info("x") // bad: log/slog.Info
	(*slog.Logger)(nil).Info("x") // bad: log/slog.(*Logger).Info
	fmt.Println("x") // bad: fmt.Println
	_, _ = filepath.Abs("x") // bad: path/filepath.Abs
	_ = filepath.Join("x", "y")
	_ = mathrand.Int() // bad: math/rand.Int
	_, _ = rand.Read(nil) // bad: crypto/rand.Read
	f := time.After // bad: time.After
	_ = f
	_ = time.NewTimer(1) // bad: time.NewTimer
	_ = time.Tick(1) // bad: time.Tick
	_, _ = time.LoadLocation("x") // bad: time.LoadLocation
	_ = fmt.Sprint(os.ErrNotExist)
}
`

func TestTheTransactionCheckerHasTeeth(t *testing.T) {
	g := newGraph()
	exports, _ := listPackages(t, "crypto/rand", "fmt", "io/fs", "log/slog", "math/rand", "net", "os/exec", "path/filepath", "syscall")
	file, err := parser.ParseFile(g.fset, "fixture.go", transactionFixture, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	g.check(t, modulePath+"/fixture", []*ast.File{file}, exports)
	g.addClosures(t, []string{"fixture.commitTurn"})
	g.addMethods(t, "fixture.turn")
	var got, want []string
	for _, f := range g.walk() {
		got = append(got, fmt.Sprintf("%d %s", f.at.Line, f.what))
	}
	line := 0
	for text := range strings.Lines(transactionFixture) {
		line++
		if _, what, bad := strings.Cut(strings.TrimSpace(text), "// bad: "); bad {
			want = append(want, fmt.Sprintf("%d %s", line, what))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("not found: line %s", w)
		}
	}
	for _, f := range got {
		if !slices.Contains(want, f) {
			t.Errorf("found and not there: line %s", f)
		}
	}
}
