//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-scheduler/rota/host"
)

// These tests run the real program and misuse its real socket: clients that
// subscribe and never read, that ask and never take the answer, more due work
// than there are places. They measure what that costs everybody else. Memory
// and processor time are read from /proc, so they run on Linux only; the code
// that they prove is the same everywhere.

const (
	stallEdits   = 12_000 // events that a stalled subscriber does not take
	stallLimit   = time.Second
	stallMemKiB  = 64 << 10
	clientWindow = 10 * time.Second // within which a frame must be taken
)

// A subscriber and a caller that never read cost nobody anything: runs start
// on time, commands are answered, memory stays, the daemon stops, and the next
// one finds everything.
func TestAStalledHostDelaysNothing(t *testing.T) {
	s := newStallSite(t, `{}`)
	s.start(nil)
	beat := s.add("beat", `{"kind":"every","everyMs":1000}`, "true")
	cron := s.add("six fields", `{"kind":"cron","expr":"*/3 * * * * *","tz":"UTC"}`, "true")
	var edited []string
	for i := range 64 {
		edited = append(edited, s.add(fmt.Sprintf("edited %d", i), hourly, "true"))
	}
	rssBefore := s.proc.rssKiB(t)

	stalledAt := time.Now()
	subscriber := s.stalledSubscriber()
	caller, callerDropped := s.hungCaller()
	took := s.commandsUnderLoad(edited)
	subscriber.awaitFull()
	for method, each := range took {
		t.Logf("%-11s %4d calls  p50 %8v  p99 %8v  max %8v", method, len(each), quantile(each, 50), quantile(each, 99), quantile(each, 100))
		if slowest := quantile(each, 100); slowest > stallLimit {
			t.Errorf("%s took %v while others stalled", method, slowest)
		}
	}

	// Neither holds its connection for ever.
	stallAwait(t, "the end of the stalled subscription", subscriber.gone)
	<-callerDropped
	t.Logf("both stalled clients are dropped after %v; %d bytes lie unread at the caller", time.Since(stalledAt).Round(time.Millisecond), caller.unread())
	grown := s.proc.rssKiB(t) - rssBefore
	t.Logf("memory: %d KiB before, %d KiB more after %d events", rssBefore, grown, stallEdits)
	if grown > stallMemKiB {
		t.Errorf("memory grew by %d KiB", grown)
	}
	for _, j := range []struct{ id, what string }{{beat, "every second"}, {cron, "six fields"}} {
		s.demandOnTime(j.id, j.what, stalledAt)
	}

	// Stop with two of them connected, and start again at once.
	s.stalledSubscriber().awaitFull()
	hung, _ := s.hungCaller()
	hung.awaitFull()
	before, jobs := s.history(""), s.jobCount()
	old := s.proc
	s.client.Close()
	stopAt := old.signal(t)
	busy := s.start(nil)
	old.exit(t, stopAt, 0, 5*time.Second)
	t.Logf("the next one serves %v after the signal; %d starts found the files in use", time.Since(stopAt).Round(time.Millisecond), busy)

	if n := s.jobCount(); n != jobs {
		t.Errorf("%d jobs before and %d after", jobs, n)
	}
	after := map[string]string{}
	for _, r := range s.history("") {
		if after[r.RunID] != "" {
			t.Errorf("run %s is there twice", r.RunID)
		}
		after[r.RunID] = r.Status
	}
	for _, r := range before {
		if after[r.RunID] != r.Status {
			t.Errorf("run %s was %s and is %q", r.RunID, r.Status, after[r.RunID])
		}
	}
	if n := s.countEvents("job.updated"); n < stallEdits {
		t.Errorf("%d edits were answered, %d are in the ledger", stallEdits, n)
	}
}

// commandsUnderLoad makes the events that nobody takes, as fast as they are
// committed, and meanwhile asks as anybody would. It goes on until a stalled
// client must have been dropped.
func (s *stallSite) commandsUnderLoad(edited []string) map[string][]time.Duration {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stallPatience)
	defer cancel()
	began := time.Now()
	var left atomic.Int64
	left.Store(stallEdits)
	var editors sync.WaitGroup
	for range 16 {
		editors.Go(func() {
			c, err := host.Dial(s.sock)
			if err != nil {
				s.t.Error(err)
				return
			}
			defer c.Close()
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				params := fmt.Sprintf(`{"id":%q,"patch":{"description":"edit %d %s"}}`, edited[n%int64(len(edited))], n, strings.Repeat("x", 100))
				if err := c.Call(ctx, "cron.update", json.RawMessage(params), nil); err != nil {
					s.t.Error(err)
					return
				}
			}
		})
	}
	loaded := make(chan struct{})
	go func() { editors.Wait(); close(loaded) }()
	took := map[string][]time.Duration{}
	timed := func(method, params string, into any) {
		start := time.Now()
		s.ask(s.client, method, params, into)
		took[method] = append(took[method], time.Since(start))
	}
	end := time.After(clientWindow)
	for n, over, done := 0, false, false; !over || !done; n++ {
		var added struct{ ID string }
		timed("cron.add", stallJob(fmt.Sprintf("passing %d", n), hourly, "true"), &added)
		timed("cron.update", `{"id":"`+added.ID+`","patch":{"description":"seen"}}`, nil)
		timed("cron.run", `{"id":"`+added.ID+`"}`, nil)
		timed("cron.list", `{"limit":20}`, nil)
		timed("cron.runs", `{"limit":20}`, nil)
		timed("cron.remove", `{"id":"`+added.ID+`"}`, nil)
		select {
		case <-loaded:
			loaded, done = nil, true
			s.t.Logf("%d edits are committed after %v", stallEdits, time.Since(began).Round(time.Millisecond))
		case <-end:
			over = true
		case <-time.After(50 * time.Millisecond):
		}
	}
	return took
}

// demandOnTime compares start and slot of every run since a moment.
func (s *stallSite) demandOnTime(jobID, what string, since time.Time) {
	s.t.Helper()
	var late []time.Duration
	for _, r := range s.history(jobID) {
		if r.SlotMs >= since.UnixMilli() {
			late = append(late, time.Duration(r.StartedAtMs-r.SlotMs)*time.Millisecond)
		}
	}
	if len(late) < 3 {
		s.t.Fatalf("%s: %d runs in %v", what, len(late), time.Since(since))
	}
	s.t.Logf("%s: %d runs, late p50 %v p99 %v", what, len(late), quantile(late, 50), quantile(late, 99))
	if worst := quantile(late, 100); worst > stallLimit {
		s.t.Errorf("%s: a run started %v late", what, worst)
	}
}

func (s *stallSite) jobCount() int {
	var status struct{ Jobs int }
	s.ask(s.client, "cron.status", `{}`, &status)
	return status.Jobs
}

func (s *stallSite) countEvents(kind string) (n int) {
	s.t.Helper()
	for since := int64(0); ; {
		var page struct {
			Events    []struct{ Kind string }
			NextSince int64
		}
		s.ask(s.client, "rota.events", fmt.Sprintf(`{"since":%d,"limit":1000}`, since), &page)
		if len(page.Events) == 0 {
			return n
		}
		for _, e := range page.Events {
			if e.Kind == kind {
				n++
			}
		}
		since = page.NextSince
	}
}

// 45 jobs come due while nobody serves; four may run at once. The control
// plane answers from the first second on, and a job that is disabled while it
// waits does not run.
func TestCase014OverdueJobsLeaveTheControlPlaneAlone(t *testing.T) {
	const overdue, places = 45, 4
	s := newStallSite(t, fmt.Sprintf(`{"cron":{"maxConcurrentRuns":%d,"catchUp":{"maxImmediate":%d,"staggerMs":0}}}`, places, overdue))
	s.start(nil)
	due := time.Now().Add(1500 * time.Millisecond)
	var ids []string
	for i := range overdue {
		ids = append(ids, s.add(fmt.Sprintf("daily %d", i), fmt.Sprintf(`{"kind":"every","everyMs":86400000,"anchorMs":%d}`, due.UnixMilli()), "sleep", "0.4"))
	}
	s.client.Close()
	s.proc.kill()
	stallPause(time.Until(due.Add(100 * time.Millisecond)))
	s.start(nil)

	disabled := ids[overdue-1]
	var took []time.Duration
	timed := func(method, params string, into any) {
		start := time.Now()
		s.ask(s.client, method, params, into)
		took = append(took, time.Since(start))
	}
	timed("cron.update", `{"id":"`+disabled+`","patch":{"enabled":false}}`, nil)
	stallAwait(t, "the other runs", func() bool {
		var list struct {
			Jobs []struct {
				State struct{ RunningAtMs int64 }
			}
		}
		timed("cron.list", `{"limit":200,"includeDisabled":true}`, &list)
		active := 0
		for _, j := range list.Jobs {
			if j.State.RunningAtMs != 0 {
				active++
			}
		}
		if active > places {
			t.Errorf("%d run at once", active)
		}
		timed("cron.status", `{}`, nil)
		var page struct{ Total int }
		timed("cron.runs", `{"limit":1}`, &page)
		return page.Total >= overdue
	})
	t.Logf("%d calls, p50 %v, p99 %v", len(took), quantile(took, 50), quantile(took, 99))
	if worst := quantile(took, 100); worst > stallLimit {
		t.Errorf("a call took %v", worst)
	}
	ran := map[string]int{}
	for _, r := range s.history("") {
		if ran[r.JobID]++; r.JobID == disabled && r.StartedAtMs != 0 || r.JobID != disabled && r.Status != "ok" {
			t.Errorf("job %s: %s, started at %d", r.JobID, r.Status, r.StartedAtMs)
		}
	}
	for _, id := range ids {
		if ran[id] != 1 {
			t.Errorf("job %s is %d times in the history", id, ran[id])
		}
	}
}

// One long run holds the only place and three wait: reads, an edit, a disable
// and a removal do not wait with them.
func TestCase040CallsDoNotWaitForRuns(t *testing.T) {
	s := newStallSite(t, `{"cron":{"maxConcurrentRuns":1}}`)
	s.start(nil, "--grace", "1s")
	var ids []string
	for i := range 4 {
		ids = append(ids, s.add(fmt.Sprintf("long %d", i), hourly, "sleep", "60"))
		s.ask(s.client, "cron.run", `{"id":"`+ids[i]+`"}`, nil)
	}
	var took []time.Duration
	timed := func(method, params string) {
		start := time.Now()
		s.ask(s.client, method, params, nil)
		took = append(took, time.Since(start))
	}
	for n := range 100 {
		timed("cron.list", `{}`)
		timed("cron.status", `{}`)
		timed("cron.runs", `{}`)
		timed("cron.get", `{"id":"`+ids[n%4]+`"}`)
		timed("cron.update", fmt.Sprintf(`{"id":"%s","patch":{"description":"look %d"}}`, ids[n%4], n))
	}
	timed("cron.update", `{"id":"`+ids[2]+`","patch":{"enabled":false}}`)
	timed("cron.remove", `{"id":"`+ids[3]+`"}`)
	timed("cron.remove", `{"id":"`+ids[0]+`"}`) // its run is active
	t.Logf("%d calls, p50 %v, p99 %v", len(took), quantile(took, 50), quantile(took, 99))
	if p99 := quantile(took, 99); p99 > 200*time.Millisecond {
		t.Errorf("p99 is %v", p99)
	}
	if worst := quantile(took, 100); worst > stallLimit {
		t.Errorf("the slowest took %v", worst)
	}
}

// Ten jobs are due and the only place is taken: the daemon sleeps. When the
// place is free, the first starts at once and each next one when the last ends.
func TestCase094DueJobsWithoutAPlaceDoNotSpin(t *testing.T) {
	s := newStallSite(t, `{"cron":{"maxConcurrentRuns":1}}`)
	s.start(nil)
	var blocker struct{ RunID string }
	s.ask(s.client, "cron.run", `{"id":"`+s.add("blocker", hourly, "sleep", "300")+`"}`, &blocker)
	due := time.Now().Add(1200 * time.Millisecond)
	for i := range 10 {
		s.add(fmt.Sprintf("due %d", i), stallAt(due), "true")
	}
	stallPause(time.Until(due.Add(300 * time.Millisecond)))
	s.demandIdle("ten due jobs wait for a place")

	freed := time.Now()
	s.ask(s.client, "rota.stop", `{"runId":"`+blocker.RunID+`"}`, nil)
	stallAwait(t, "the ten", func() bool { return len(s.history("")) == 11 })
	free := freed.UnixMilli()
	runs := s.history("")
	for i := len(runs) - 1; i >= 0; i-- { // oldest first
		r := runs[i]
		if r.RunID == blocker.RunID {
			continue
		}
		if r.Status != "ok" || r.StartedAtMs-free > 1000 {
			t.Errorf("%s: %s, started %d ms after the place was free", r.JobID, r.Status, r.StartedAtMs-free)
		}
		free = r.TsMs
	}
	t.Logf("the last of ten ended %v after the place was free", time.UnixMilli(free).Sub(freed).Round(time.Millisecond))
}

// A file that is only shown has a job that is due. Nothing may fire, and
// nothing may turn in a circle about it.
func TestCase094DueJobInAFileThatIsOnlyShown(t *testing.T) {
	s := newStallSite(t, `{}`)
	s.start(nil)
	due := time.Now().Add(700 * time.Millisecond)
	s.add("due", stallAt(due), "true")
	s.stop()
	db := filepath.Join(s.dir, "rota.sqlite")
	old, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	s.start(nil)
	s.stop()
	if err := os.WriteFile(db, old, 0o600); err != nil { // rolled back behind the daemon's back
		t.Fatal(err)
	}
	stallPause(time.Until(due.Add(100 * time.Millisecond)))
	s.start(nil)
	ctx, cancel := context.WithTimeout(t.Context(), stallPatience)
	defer cancel()
	if err := s.client.Call(ctx, "cron.add", json.RawMessage(stallJob("more", hourly, "true")), nil); err == nil {
		t.Fatal("the file is written, not only shown: this test is about nothing")
	}
	s.demandIdle("a due job in a file that is only shown")
	s.stop()
}

// demandIdle measures a few seconds in which nothing can be done.
func (s *stallSite) demandIdle(what string) {
	s.t.Helper()
	const window = 3 * time.Second
	cpu, wakeUps, start := s.proc.cpu(s.t), s.proc.wakeUps(s.t), time.Now()
	stallPause(window)
	used, woke, wall := s.proc.cpu(s.t)-cpu, s.proc.wakeUps(s.t)-wakeUps, time.Since(start)
	s.t.Logf("%s: %v of processor time and %d waits of any thread in %v", what, used, woke, wall.Round(time.Millisecond))
	if used > wall/20 {
		s.t.Errorf("%s: %v of processor time in %v", what, used, wall)
	}
	// Threads of the runtime wake too; the loop itself must not be seen.
	if perSecond := float64(woke) / wall.Seconds(); perSecond > 50 {
		s.t.Errorf("%s: threads woke %.0f times a second", what, perSecond)
	}
}

// stop ends the daemon as a supervisor does.
func (s *stallSite) stop() {
	s.t.Helper()
	s.client.Close()
	s.proc.exit(s.t, s.proc.signal(s.t), 0, 3*time.Second)
}

// A daemon that is asked to stop does so, whoever is connected and however
// they behave.
func TestCase132AStopWaitsForNobody(t *testing.T) {
	for _, c := range []struct {
		name   string
		attach func(s *stallSite)
	}{
		{"idle", func(*stallSite) {}},
		{"a silent connection", func(s *stallSite) { s.line() }},
		{"half a request", func(s *stallSite) {
			if _, err := s.line().Write([]byte(`{"type":"req","id":"1","meth`)); err != nil {
				s.t.Fatal(err)
			}
		}},
		{"an event stream", func(s *stallSite) {
			l := s.stalledSubscriber()
			go func() { _, _ = io.Copy(io.Discard, l.r) }()
		}},
		{"an event stream nobody reads", func(s *stallSite) { s.stalledSubscriber().awaitFull() }},
		{"a caller that never reads", func(s *stallSite) {
			l, _ := s.hungCaller()
			l.awaitFull()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStallSite(t, `{}`)
			s.start(nil)
			id := s.add("edited", hourly, "true")
			for n := range 100 { // enough events to fill a connection
				s.ask(s.client, "cron.update", fmt.Sprintf(`{"id":%q,"patch":{"name":"edit %d %s"}}`, id, n, strings.Repeat("x", 40)), nil)
			}
			c.attach(s)
			s.stop()
			first := s.proc.cmd.Process.Pid
			s.start(nil)
			if s.proc.cmd.Process.Pid == first {
				t.Error("the next daemon has the pid of the last")
			}
			if n := s.jobCount(); n != 1 {
				t.Errorf("%d jobs after the restart", n)
			}
		})
	}
}

// Finished runs are told on standard output. A pipe that nobody empties keeps
// the daemon neither from working nor from stopping.
func TestCase132AStopDoesNotWaitForAFullPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	s := newStallSite(t, `{}`)
	s.start(w)
	w.Close()
	const runs = 120 // of which each line is longer than 40 bytes
	id := s.add("talks", hourly, "true")
	for n := range runs {
		s.ask(s.client, "cron.run", fmt.Sprintf(`{"id":%q,"requestKey":"%d"}`, id, n), nil)
		stallAwait(t, "the run", func() bool {
			var page struct{ Total int }
			s.ask(s.client, "cron.runs", `{"limit":1}`, &page)
			return page.Total > n
		})
	}
	s.stop()
}

// A second signal does not wait for the grace that the first one gave.
func TestCase132TheSecondSignalEndsAtOnce(t *testing.T) {
	s := newStallSite(t, `{}`)
	s.start(nil, "--grace", "30s")
	var run struct{ RunID string }
	s.ask(s.client, "cron.run", `{"id":"`+s.add("stubborn", hourly, "sh", "-c", "trap '' TERM; sleep 60")+`"}`, &run)
	stallAwait(t, "the run", func() bool {
		var logs struct{ Running bool }
		s.ask(s.client, "rota.logs", `{"runId":"`+run.RunID+`"}`, &logs)
		return logs.Running
	})
	s.client.Close()
	s.proc.signal(t)
	stallAwait(t, "a host that has stopped", func() bool { _, err := os.Stat(s.sock); return err != nil })
	again := s.proc.signal(t)
	select {
	case <-s.proc.ended:
	case <-time.After(stallPatience):
		t.Fatal("the daemon does not stop")
	}
	if d := time.Since(again); d > time.Second {
		t.Errorf("ended %v after the second signal", d)
	}
	s.start(nil) // what it left is settled, and the daemon serves
	if got := s.history(""); len(got) != 1 || got[0].Status != "error" {
		t.Errorf("the history has %+v", got)
	}
}
