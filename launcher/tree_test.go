//go:build unix

package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// onlyLinux is for what other systems cannot do: find processes that left
// their session.
const onlyLinux = runtime.GOOS == "linux"

// Each script starts a family and writes the pid of every member into $PIDS.
// Whatever they do, a timeout leaves none of them.
var families = []struct {
	name, script string
	members      int
	linux        bool
}{
	{"a shell and two children", `echo $$ >>$PIDS; sleep 600 & echo $! >>$PIDS; sleep 600 & echo $! >>$PIDS; wait`, 3, false},
	{"a tree that ignores TERM", `trap '' TERM; echo $$ >>$PIDS; sh -c 'echo $$ >>$PIDS; while :; do sleep 600; done' & while :; do sleep 600; done`, 2, false},
	{"a leader that goes and a child that ignores TERM without holding the output",
		`sh -c 'trap "" TERM; echo $$ >>$PIDS; while :; do sleep 600; done' >/dev/null 2>&1 & echo $$ >>$PIDS; wait`, 2, false},
	{"a child with a session of its own", `echo $$ >>$PIDS; setsid sh -c 'echo $$ >>$PIDS; exec sleep 600' & wait`, 2, true},
	{"a daemon by two forks", `echo $$ >>$PIDS; (setsid sh -c 'sh -c "echo \$\$ >>$PIDS; exec sleep 600" >/dev/null 2>&1 &' &); exec sleep 600`, 2, true},
}

func TestCase052TimeoutKillsTheGroup(t *testing.T) {
	for _, f := range families {
		if f.linux && !onlyLinux {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			rounds := 2
			if testing.Short() {
				rounds = 1
			}
			d := newDesk(t, Options{CleanupGraceMs: 300})
			pids := filepath.Join(t.TempDir(), "pids")
			for round := 1; round <= rounds; round++ {
				d.command(job.CommandPayload{Argv: []string{"sh", "-c", f.script}, TimeoutMs: 800,
					Env: []job.EnvVar{{Name: "PIDS", Value: pids}}})
				o := d.outcome()
				equal(t, "kind", o.Kind, worker.KindTimeout)
				equal(t, "reason", o.ErrorReason, "timeout")
				if took := o.EndedAtMs - o.StartedAtMs; took > 800+300+1000 {
					t.Errorf("it took %d ms; timeout 800, grace 300, and at most 1000 more", took)
				}
				all := pidsIn(pids)
				equal(t, "members so far", len(all), round*f.members)
				for _, pid := range all {
					if lives(pid) {
						t.Errorf("round %d: process %d lives on", round, pid)
					}
				}
			}
		})
	}
}

// A worker under a shell gets its grace, even though the shell goes at once.
func TestTheGraceIsForEveryoneInTheGroup(t *testing.T) {
	d := newDesk(t, Options{CleanupGraceMs: 20_000})
	launch := d.shell(`sh -c 'trap "sleep 0.3; echo tidied; exit 0" TERM; echo ready; while :; do sleep 0.05; done' & wait`)
	await(t, "the worker", func() bool {
		text, _ := d.launcher.Output(launch.RunID)
		return text == "ready"
	})
	d.order(worker.Order{Cancel: &worker.Cancel{ReceiptID: launch.ReceiptID, Reason: worker.KindStopped}})
	o := d.outcome()
	if !strings.Contains(o.Summary, "tidied") {
		t.Errorf("the worker was killed before it had tidied up: %q", o.Summary)
	}
	if o.DurationMs > 10_000 {
		t.Errorf("the whole grace was waited for, %d ms, with nobody left", o.DurationMs)
	}
}

func TestAGrandchildThatHoldsTheOutputDoesNotHoldUpTheEnd(t *testing.T) {
	d := newDesk(t, Options{})
	pids := filepath.Join(t.TempDir(), "pids")
	d.shell("sleep 600 & echo $! >" + pids + "; echo last; exit 4")
	o := d.outcome()
	equal(t, "error", o.Error, "command exited with code 4")
	equal(t, "summary", o.Summary, "last")
	if o.DurationMs > drainMs+sweepMs+1000 {
		t.Errorf("it took %d ms", o.DurationMs)
	}
	for _, pid := range pidsIn(pids) {
		if lives(pid) {
			t.Errorf("the grandchild %d lives on", pid)
		}
	}
}

func TestAGrandchildThatLetGoOfTheOutputIsLeftAlone(t *testing.T) {
	d := newDesk(t, Options{})
	pids := filepath.Join(t.TempDir(), "pids")
	d.shell("sleep 600 >/dev/null 2>&1 & echo $! >" + pids)
	o := d.outcome()
	equal(t, "status", o.Status, worker.StatusOK)
	if o.DurationMs > drainMs {
		t.Errorf("it was waited for, %d ms", o.DurationMs)
	}
	for _, pid := range pidsIn(pids) {
		if !lives(pid) {
			t.Errorf("the background process %d was ended, though its command ended well", pid)
		}
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}

func TestCase054AfterATimeoutTheJobRunsAgain(t *testing.T) {
	d := newDesk(t, Options{ShutdownGraceMs: 400, CleanupGraceMs: 200})
	for range 3 {
		d.command(job.CommandPayload{Argv: []string{"sleep", "600"}, TimeoutMs: 100})
		equal(t, "kind", d.outcome().Kind, worker.KindTimeout)
		d.command(job.CommandPayload{Argv: []string{"true"}, TimeoutMs: 100_000})
		equal(t, "the next one", d.outcome().Status, worker.StatusOK)
	}
	// A timeout at the moment the daemon stops is one end, of one kind.
	d.command(job.CommandPayload{Argv: []string{"sleep", "600"}, TimeoutMs: 400})
	d.started()
	d.stop()
	o := d.outcome()
	switch {
	case o.Kind == worker.KindTimeout && o.Interrupted == "":
	case o.Kind == worker.KindShutdown && o.Interrupted == "shutdown":
	default:
		t.Errorf("kind %q, interrupted %q", o.Kind, o.Interrupted)
	}
	<-d.done
	equal(t, "further outcomes", len(d.outcomes), 0)
}

// The wall clock goes forward an hour and back two while the command runs.
func TestCase075DeadlinesAreMonotonic(t *testing.T) {
	wall := make(chan int64, 1)
	wall <- 1_800_000_000_000
	now := func() int64 {
		ms := <-wall
		wall <- ms
		return ms
	}
	step := func(ms int64) { wall <- ms + <-wall }
	d := newDesk(t, Options{Now: now})
	gate := filepath.Join(t.TempDir(), "gate")
	began := time.Now()
	d.command(job.CommandPayload{Argv: []string{"sh", "-c", "while [ ! -e " + gate + " ]; do sleep 0.02; done"},
		TimeoutMs: 30_000, NoOutputTimeoutMs: 30_000})
	d.started()
	step(+3_600_000)
	d.command(job.CommandPayload{Argv: []string{"sleep", "600"}, TimeoutMs: 200})
	equal(t, "a short timeout in a long hour", d.outcome().Kind, worker.KindTimeout)
	step(-7_200_000)
	equal(t, "outcomes so far", len(d.outcomes), 0)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := d.outcome()
	equal(t, "status", o.Status, worker.StatusOK)
	equal(t, "start shown", o.StartedAtMs, 1_800_000_000_000)
	equal(t, "end shown", o.EndedAtMs, 1_800_000_000_000-3_600_000)
	if took := time.Since(began).Milliseconds(); o.DurationMs < 0 || o.DurationMs > took+1 { // two roundings
		t.Errorf("duration %d ms, and really %d", o.DurationMs, took)
	}
}

func TestCase117TheLastLinesAreKept(t *testing.T) {
	d := newDesk(t, Options{})
	// 200 KB on each stream, interleaved, the last line without a line feed.
	const script = `i=0; while [ $i -lt 2000 ]; do i=$((i+1)); printf '%099d\n' $i; printf '%099d\n' $i >&2; done; printf 'the end'; exit 7`
	for range 5 {
		d.command(job.CommandPayload{Argv: []string{"sh", "-c", script}, OutputMaxBytes: 1 << 20})
		o := d.outcome()
		equal(t, "error", o.Error, "command exited with code 7")
		equal(t, "bytes on stdout", o.Output.StdoutBytes, 2000*100+7)
		equal(t, "bytes on stderr", o.Output.StderrBytes, 2000*100)
		stdout, stderr, _ := strings.Cut(strings.TrimPrefix(o.Summary, "stdout:\n"), "\n\nstderr:\n")
		if !strings.HasSuffix(stdout, "\nthe end") {
			t.Errorf("stdout ends with %q", stdout[max(0, len(stdout)-20):])
		}
		for name, text := range map[string]string{"stdout": stdout, "stderr": stderr} {
			for i, line := range strings.Split(strings.TrimSuffix(text, "\nthe end"), "\n") {
				if line != fmt.Sprintf("%099d", i+1) {
					t.Fatalf("%s line %d is %q", name, i+1, line)
				}
			}
		}
	}
}

func TestCase118NothingWaitsForInput(t *testing.T) {
	d := newDesk(t, Options{})
	for _, c := range []struct{ script, err, summary string }{
		{"cat", "", ""},
		{"read x; echo \"got <$x>\"", "", "got <>"},
		{"exec 2>/dev/null; read x </dev/tty || exit 9; echo never", "command exited with code 9", ""},
	} {
		d.command(job.CommandPayload{Argv: []string{"sh", "-c", c.script}, TimeoutMs: 10_000})
		o := d.outcome()
		if !strings.HasPrefix(o.Error, c.err) || (c.err == "") != (o.Status == worker.StatusOK) {
			t.Errorf("%s: status %s, error %q", c.script, o.Status, o.Error)
		}
		equal(t, c.script, o.Summary, c.summary)
	}
}

// The limit counts from the process's start. What the run waited before that,
// here at the live check, is not taken from it.
func TestCase119WaitingDoesNotEatTheTimeout(t *testing.T) {
	d := newDesk(t, Options{})
	d.live = func(*worker.Launch) string {
		<-time.After(1200 * time.Millisecond)
		return ""
	}
	d.command(job.CommandPayload{Argv: []string{"sleep", "0.1"}, TimeoutMs: 1000, NoOutputTimeoutMs: 1000})
	o := d.outcome()
	equal(t, "status", o.Status, worker.StatusOK)
	equal(t, "error", o.Error, "")
}

func TestCase131ArgumentsArriveByteForByte(t *testing.T) {
	d := newDesk(t, Options{})
	victim := filepath.Join(t.TempDir(), "x")
	argv := []string{os.Args[0], "; touch " + victim, "$(touch " + victim + ")", "`touch " + victim + "`", "a\nb", "-rf", "--", "", "  ", `"'\`, "*", "é€"}
	value := "a=b\nc=$(touch " + victim + ")"
	d.command(job.CommandPayload{Argv: argv, Env: []job.EnvVar{{Name: "LAUNCHER_TEST_ROLE", Value: "arguments"}, {Name: "VALUE", Value: value}}})
	o := d.outcome()
	equal(t, "status", o.Status, worker.StatusOK)
	equal(t, "what arrived", o.Summary, asJSON(t, map[string]any{"argv": argv[1:], "value": value}))
	if _, err := os.Stat(victim); err == nil {
		t.Error("an argument was run by a shell")
	}
}
