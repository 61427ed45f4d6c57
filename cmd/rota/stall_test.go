//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/host"
)

// These tests run the real program and misuse its real socket: clients that
// subscribe and never read, that ask and never take the answer, more due work
// than there are places. They measure what that costs everybody else. Memory
// and processor time are read from /proc, so they run on Linux only; the code
// that they prove is the same everywhere.

// Bounds. Whoever waits for a stalled client waits ten seconds, so stallWorst
// tells that apart from a machine that is busy with other things.
const (
	stallEdits   = 12_000 // events that a stalled subscriber does not take
	stallUsual   = time.Second
	stallWorst   = 3 * time.Second
	stallMemKiB  = 64 << 10
	clientWindow = 10 * time.Second // within which a client must take a frame
)

// stallPrompt demands that waits were short: nearly all below a second.
func stallPrompt(t *testing.T, what string, waits []time.Duration) {
	t.Helper()
	p50, p95, p99, worst := quantile(waits, 50), quantile(waits, 95), quantile(waits, 99), quantile(waits, 100)
	t.Logf("%-12s %4d times: p50 %v, p99 %v, worst %v", what, len(waits), p50, p99, worst)
	if p95 > stallUsual || worst > stallWorst {
		t.Errorf("%s: p95 %v, worst %v", what, p95, worst)
	}
}

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
		stallPrompt(t, method, each)
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
	var editors sync.WaitGroup
	defer editors.Wait()
	ctx, cancel := context.WithTimeout(s.t.Context(), stallPatience)
	defer cancel()
	began := time.Now()
	var left atomic.Int64
	left.Store(stallEdits)
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
	if len(late) < 2 {
		s.t.Fatalf("%s: %d runs in %v", what, len(late), time.Since(since))
	}
	stallPrompt(s.t, what+": late", late)
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
	stallPrompt(t, "a call", took)
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
	stallPrompt(t, "a call", took)
	if p99 := quantile(took, 99); p99 > 200*time.Millisecond {
		t.Errorf("p99 is %v", p99)
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
