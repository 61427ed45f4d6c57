//go:build unix

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// refused waits for the end of a daemon that may not serve.
func (l *crashLife) refused() (exit int, took time.Duration) {
	l.site.t.Helper()
	select {
	case <-l.gone:
	case <-time.After(crashPatience):
		l.site.t.Fatalf("the daemon was not refused\n%s", l.site.logTail())
	}
	return l.cmd.ProcessState.ExitCode(), time.Since(l.startedAt)
}

// rest lets everything that is open come to its end, stops in order, and gives
// the ledger. What still waited at the stop gets another start.
func (l *crashLife) rest() *crashLedger {
	l.site.t.Helper()
	for try := 1; ; try++ {
		if open := l.fired(); len(open) > 0 {
			l.site.t.Fatalf("still open: %v\n%s", open, l.site.logTail())
		}
		if exit, _ := l.terminate(); exit != 0 {
			l.site.t.Fatalf("a stop in order gave exit code %d\n%s", exit, l.site.logTail())
		}
		ledger := l.site.ledger()
		if !ledger.open() || ledger.active() || try == settleTries {
			return ledger
		}
		l = l.site.start(l.cmd.Path, crashStart{}).serves()
	}
}

// effectsOf counts the effects of one run.
func (s *crashSite) effectsOf(runID string) (n int) {
	for _, e := range s.readEffects() {
		if e.runID == runID {
			n++
		}
	}
	return n
}

// A stop during active runs lets them end, and a daemon that is started at
// once, and again while it is told that the file is held, takes over within
// the grace. Nothing that was acknowledged is lost or interrupted.
func TestSIGTERMHandsOver(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second
	s, binary := newCrashSite(t), crashPlain(t)
	old := s.start(binary, crashStart{flags: []string{"--grace", grace.String()}}).serves()
	var manual []string
	for i := range crashClients * crashJobsPerClient {
		script := crashQuick
		if i%2 == 0 {
			script = crashSlow
		}
		manual = append(manual, old.add(crashManual(fmt.Sprintf("manual-%d", i), script)))
	}
	load := old.load(manual, 0, rand.New(rand.NewPCG(1, 2)))
	crashAwait(t, "many runs are active", func() bool { return len(s.readEffects()) >= 2*crashClients })

	if err := old.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	asked, refusals := time.Now(), 0
	var next *crashLife
	for next == nil {
		next = s.start(binary, crashStart{})
		crashAwait(t, "the new daemon serves or is refused", func() bool {
			_, err := os.Stat(next.ready)
			return err == nil || next.ended()
		})
		if next.ended() {
			if exit := next.cmd.ProcessState.ExitCode(); exit != exitBusy {
				t.Fatalf("the new daemon ended with %d\n%s", exit, s.logTail())
			}
			next, refusals = nil, refusals+1
		}
	}
	if took := time.Since(asked); took > grace {
		t.Errorf("the new daemon serves after %v, the grace is %v", took, grace)
	} else {
		t.Logf("handed over in %v, after %d refusals", took.Round(time.Millisecond), refusals)
	}
	<-old.gone
	if exit := old.cmd.ProcessState.ExitCode(); exit != 0 {
		t.Errorf("the old daemon ended with %d\n%s", exit, s.logTail())
	}
	if err := load.end(); err != nil {
		t.Errorf("a client was refused: %v", err)
	}
	facts := crashFacts{acks: s.journal.all(), settled: true}
	facts.ledger, facts.effects = next.rest(), s.readEffects()
	for _, v := range facts.judge() {
		t.Error(v)
	}
	if n := facts.interrupted(); n > 0 {
		t.Errorf("%d runs were interrupted; all of them had the time to end", n)
	}
}

// The second daemon on one file is refused at once and told who holds it,
// under whatever name it reaches the file. A dead holder is no holder, also
// where its number belongs to somebody else by now.
func TestCase022TwoDaemonsOnOneStore(t *testing.T) {
	t.Parallel()
	s, binary := newCrashSite(t), crashPlain(t)
	first := s.start(binary, crashStart{}).serves()
	other := t.TempDir()
	link := filepath.Join(other, "link")
	if err := os.Symlink(s.dir, link); err != nil {
		t.Fatal(err)
	}
	for name, how := range map[string]crashStart{
		"the same directory":                      {},
		"a symbolic link to it":                   {dir: link},
		"another directory, the same file":        {dir: other, flags: []string{"--db", s.db()}},
		"another directory, a link to the file's": {dir: other, flags: []string{"--db", databasePath(link)}},
	} {
		fastest := time.Hour // a busy machine may be slow at times, not always
		for range 5 {
			exit, took := s.start(binary, how).refused()
			if exit != exitBusy {
				t.Errorf("%s: exit code %d, want %d\n%s", name, exit, exitBusy, s.logTail())
			}
			fastest = min(fastest, took)
		}
		if fastest > 200*time.Millisecond {
			t.Errorf("%s: refused after %v", name, fastest)
		}
		holder := fmt.Sprintf("held by pid %d ", first.cmd.Process.Pid)
		if said := s.logTail(); !strings.Contains(said[strings.LastIndex(strings.TrimRight(said, "\n"), "open "):], holder) {
			t.Errorf("%s: the refusal does not name the holder (%s):\n%s", name, holder, said)
		}
	}

	first.kill()
	second := s.start(binary, crashStart{}).serves()
	second.kill()
	lock := s.db() + ".rota-lock"
	raw, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	foreign := regexp.MustCompile(`pid \d+`).ReplaceAllString(string(raw), fmt.Sprintf("pid %d", os.Getpid()))
	if foreign == string(raw) {
		t.Fatalf("the lock does not name its holder: %q", raw)
	}
	if err := os.WriteFile(lock, []byte(foreign), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(binary, crashStart{}).serves().rest()
}

// A stop lets a run end that can, starts nothing more, and the slot that came
// meanwhile is run at the next start.
func TestCase029AStopLetsRunsEnd(t *testing.T) {
	t.Parallel()
	s, binary := newCrashSite(t), crashPlain(t)
	life := s.start(binary, crashStart{flags: []string{"--grace", "30s"}}).serves()
	running := life.add(crashManual("running", crashQuick+"; sleep 3"))
	var answer crashRunAnswer
	life.ask("cron.run", map[string]string{"id": running, "mode": "force"}, &answer)
	crashAwait(t, "the run is active", func() bool { return s.effectsOf(answer.RunID) == 1 })
	slotMs := time.Now().UnixMilli() + 1000
	due := life.add(crashOnce("due", slotMs, crashQuick))

	exit, took := life.terminate()
	if exit != 0 || took > 20*time.Second {
		t.Errorf("exit code %d after %v, want 0 as soon as the run ended", exit, took)
	}
	if now := time.Now().UnixMilli(); now < slotMs {
		t.Fatalf("it ended %d ms before the slot: it did not wait for the run", slotMs-now)
	}
	l := s.ledger()
	if runs := l.of(running); len(runs) != 1 || runs[0].Status != "ok" {
		t.Errorf("the active run ended as %+v, want ok", runs)
	}
	if runs := l.of(due); len(runs) != 0 || len(s.readEffects()) != 1 {
		t.Errorf("a slot was started during the stop: %+v", runs)
	}
	l = s.start(binary, crashStart{}).serves().rest()
	if runs := l.of(due); len(runs) != 1 || runs[0].Status != "ok" || runs[0].SlotMs != slotMs || runs[0].Trigger != "catch-up" {
		t.Errorf("the slot %d was caught up as %+v", slotMs, runs)
	}
}

// A run that does not end within the grace gets TERM, then KILL, and is
// recorded as interrupted by the shutdown. Nothing of it is left.
func TestCase029AStopEndsWhatDoesNot(t *testing.T) {
	t.Parallel()
	s, binary := newCrashSite(t), crashPlain(t)
	life := s.start(binary, crashStart{flags: []string{"--grace", "1s"}}).serves()
	id := life.add(crashManual("stubborn", "trap '' TERM; "+crashQuick+"; sleep 60; sleep 60"))
	var answer crashRunAnswer
	life.ask("cron.run", map[string]string{"id": id, "mode": "force"}, &answer)
	crashAwait(t, "the run is active", func() bool { return s.effectsOf(answer.RunID) == 1 })

	exit, took := life.terminate()
	if exit != 0 || took < time.Second || took > 15*time.Second {
		t.Errorf("exit code %d after %v, want 0 after the grace and two seconds more", exit, took)
	}
	runs := s.ledger().of(id)
	if len(runs) != 1 || runs[0].Interrupted == nil || runs[0].Interrupted.Reason != "shutdown" {
		t.Errorf("the run ended as %+v, want interrupted by the shutdown", runs)
	}
	for _, e := range s.readEffects() { // the system may be a little behind with burying
		if !crashWithin(5*time.Second, func() bool { return errors.Is(syscall.Kill(-e.pid, 0), syscall.ESRCH) }) {
			t.Errorf("process group %d is still there", e.pid)
		}
	}
	if l := s.start(binary, crashStart{}).serves().rest(); len(l.of(id)) != 1 || len(s.readEffects()) != 1 {
		t.Errorf("the run was run again: %+v", l.of(id))
	}
}

// Stops at random moments, also of the start, while runs are asked for and many
// wait: the exit code is 0, the daemon is gone within the grace, and nothing
// is left active or lost. Few places make the queue that a start takes up.
func TestStopsAtRandomMoments(t *testing.T) {
	t.Parallel()
	x := newCrashTrial(t, crashPlain(t), crashPlain(t))
	x.site.configure(`{"cron":{"maxConcurrentRuns":2,"timezone":"UTC","catchUp":{"staggerMs":100},"webhookSsrfPolicy":{"allowedHostnames":["127.0.0.1"]}}}`)
	before := x.settle().interrupted() // its founding ended with a kill
	for i := range crashRounds(100, 10) {
		life := x.site.start(x.plain, crashStart{})
		load := life.load(x.manual, 0, x.rng)
		if i%2 == 0 {
			life.serves()
		}
		moment := time.Duration(x.rng.IntN(150)) * time.Millisecond
		select {
		case <-time.After(moment):
		case <-life.gone:
			t.Fatalf("stop %d: the daemon ended by itself\n%s", i, x.site.logTail())
		}
		exit, took := life.terminate()
		if exit != 0 && !life.endedBy(syscall.SIGTERM) { // before it listens to signals
			t.Errorf("stop %d: exit code %d\n%s", i, exit, x.site.logTail())
		}
		if took > 11*time.Second {
			t.Errorf("stop %d: took %v, the grace is 10 s", i, took)
		}
		if err := load.end(); err != nil {
			x.refused = append(x.refused, err.Error())
		}
		f := x.look()
		f.stopped = exit == 0
		x.report(f)
	}
	f := x.settle()
	x.report(f)
	if n := f.interrupted() - before; n > 0 {
		t.Errorf("%d runs were interrupted; a stop gives them the time to end", n)
	}
}
