//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// crashRounds is how often a case is repeated: its full number in the long
// form (ROTA_CRASH=long), fewer by default.
func crashRounds(long, short int) int {
	if os.Getenv("ROTA_CRASH") == "long" {
		return long
	}
	return short
}

// crashDaily is a job with one slot a day.
func crashDaily(name string, slot time.Time, script string) string {
	expr := slot.UTC().Format("5 4 15 * * *")
	return `{"name":"` + name + `","schedule":{"kind":"cron","expr":"` + expr + `","tz":"UTC","staggerMs":0},"payload":` + crashCommand(script) + `}`
}

// A restart across a daily slot: the slot runs once, late, and says how late;
// the next one is tomorrow's.
func TestCase018RestartAcrossTheSlot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		before, after time.Duration
		kill          bool
	}{
		{"stopped for seconds", 800 * time.Millisecond, 2 * time.Second, false},
		{"killed for seconds", 800 * time.Millisecond, 2 * time.Second, true},
		{"stopped for a moment", 200 * time.Millisecond, 100 * time.Millisecond, false},
		{"killed for a moment", 200 * time.Millisecond, 100 * time.Millisecond, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, binary := newCrashSite(t), crashPlain(t)
			life := s.start(binary, crashStart{}).serves()
			slot := time.Now().Add(4 * time.Second).Truncate(time.Second)
			id := life.add(crashDaily("daily", slot, crashQuick))
			crashAwait(t, "the time to stop", func() bool { return time.Until(slot) <= c.before })
			intime := time.Now().Before(slot)
			if c.kill {
				life.kill()
			} else {
				life.terminate()
			}
			crashAwait(t, "the time to start", func() bool { return time.Since(slot) >= c.after })
			life = s.start(binary, crashStart{}).serves()
			crashAwait(t, "the slot has run", func() bool {
				jobs := life.jobs()
				return len(jobs) == 1 && jobs[0].LastRunAtMs != 0
			})
			l := life.rest()
			runs := l.of(id)
			if len(runs) != 1 || runs[0].SlotMs != slot.UnixMilli() {
				t.Fatalf("the slot %d gave %+v", slot.UnixMilli(), runs)
			}
			if intime && (runs[0].Status != "ok" || s.effectsOf(runs[0].RunID) != 1) {
				t.Errorf("%+v with %d effects, want ok with one", runs[0], s.effectsOf(runs[0].RunID))
			}
			if late := time.Duration(runs[0].LateMs) * time.Millisecond; intime && late < c.after {
				t.Errorf("recorded %v late, it was at least %v", late, c.after)
			}
			if next, want := l.jobs[id].state.NextRunAtMs, slot.AddDate(0, 0, 1).UnixMilli(); next != want {
				t.Errorf("next run at %d, want %d", next, want)
			}
		})
	}
}

// A kill after the request is committed and before the process starts: the
// slot starts exactly once, at the next start.
func TestCase025CommittedAndNotStarted(t *testing.T) {
	t.Parallel()
	s, armed := newCrashSite(t), crashArmed(t)
	points := []crashStart{
		{env: []string{"ROTA_FAILPOINT=request-committed:1", "ROTA_TWO_STEPS=1"}},
		{env: []string{"ROTA_FAILPOINT=request-committed:1"}},
		{env: []string{"ROTA_FAILPOINT=active-committed:1", "ROTA_TWO_STEPS=1"}},
		{env: []string{"ROTA_FAILPOINT=active-committed:1"}},
	}
	var slots []int64
	for i := range crashRounds(20, 8) {
		life := s.start(armed, points[i%len(points)]).serves()
		atMs := time.Now().UnixMilli() + 600 + int64(i)*7
		slots = append(slots, atMs)
		c := life.dial()
		if c == nil {
			t.Fatalf("the daemon is gone\n%s", s.logTail())
		}
		// On a busy machine the slot may come with the commit that holds the job,
		// and then nobody hears of it; the ledger does.
		err := crashCall(c, "cron.add", json.RawMessage(crashOnce(fmt.Sprintf("once-%d", i), atMs, crashQuick)), nil)
		crashAwait(t, fmt.Sprintf("it dies at its point (cron.add: %v)", err), life.ended)
		c.Close()
		life.kill()
		if len(s.readEffects()) != i {
			t.Fatalf("round %d: something started before the kill", i)
		}
		s.start(armed, crashStart{}).serves().rest()
	}
	l := s.ledger()
	if len(l.runs) != len(slots) {
		t.Errorf("%d runs of %d slots", len(l.runs), len(slots))
	}
	for i, atMs := range slots {
		at := slices.IndexFunc(l.runs, func(r crashRunRow) bool { return r.SlotMs == atMs })
		if at < 0 || l.runs[at].Status != "ok" || s.effectsOf(l.runs[at].RunID) != 1 {
			t.Errorf("round %d: slot %d is not one run that is ok: %+v", i, atMs, l.runs)
		}
	}
}

// Two jobs are due together; one has ended when the daemon is killed. Its
// result is kept and only the other one is interrupted.
func TestCase027AResultOutlivesABusySibling(t *testing.T) {
	t.Parallel()
	s, binary := newCrashSite(t), crashPlain(t)
	life := s.start(binary, crashStart{}).serves()
	atMs := time.Now().UnixMilli() + 700
	quick := life.add(crashOnce("quick", atMs, crashQuick+"; echo the report"))
	busy := life.add(crashOnce("busy", atMs, crashQuick+"; exec sleep 4"))
	crashAwait(t, "one has ended and one is running", func() bool {
		jobs := life.jobs()
		return len(jobs) == 1 && jobs[0].ID == busy && jobs[0].State.RunningAtMs != 0 && len(s.readEffects()) == 2
	})
	life.kill()

	l := s.start(binary, crashStart{}).serves().rest()
	if runs := l.of(quick); len(runs) != 1 || runs[0].Status != "ok" || !strings.Contains(runs[0].Summary, "the report") {
		t.Errorf("the run that had ended is %+v, want ok with its output", runs)
	}
	if runs := l.of(busy); len(runs) != 1 || runs[0].Interrupted == nil || runs[0].Interrupted.Reason != "restart" {
		t.Errorf("the run that had not ended is %+v, want interrupted", runs)
	}
	if n := len(s.readEffects()); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

// Six jobs are added and the daemon is killed in the moment of the sixth
// reply: all six are there, under the ids that were answered.
func TestCase031AcknowledgedJobsAreKept(t *testing.T) {
	t.Parallel()
	s, binary := newCrashSite(t), crashPlain(t)
	added := map[string]bool{}
	life := s.start(binary, crashStart{})
	for round := range crashRounds(50, 8) {
		c := life.dial()
		if c == nil {
			t.Fatalf("the daemon is gone\n%s", s.logTail())
		}
		for i := range 6 {
			id := life.add(crashManual(fmt.Sprintf("job-%d-%d", round, i), crashQuick))
			if i == 5 {
				_ = life.cmd.Process.Kill() // before anything else is done with the reply
			}
			added[id] = true
		}
		c.Close()
		life.kill()
		life = s.start(binary, crashStart{})
	}
	life.serves()
	l := life.rest()
	if len(l.jobs) != len(added) {
		t.Errorf("%d jobs are there, %d were added", len(l.jobs), len(added))
	}
	for id := range added {
		if _, kept := l.jobs[id]; !kept {
			t.Errorf("job %s was acknowledged and is gone", id)
		}
	}
}

// Runs are accepted while no place is free and the daemon is killed right
// after the replies: each runs once, under the id of its reply.
func TestCase042AcceptedRunsSurviveAKill(t *testing.T) {
	t.Parallel()
	s, binary := newCrashSite(t), crashPlain(t)
	s.configure(`{"cron":{"maxConcurrentRuns":1}}`)
	life := s.start(binary, crashStart{}).serves()
	holder := life.add(crashManual("holder", crashQuick+"; exec sleep 3"))
	never := life.add(crashManual("never ran, next is years away", crashQuick))
	soon := life.add(crashOnce("next is an hour away", time.Now().Add(time.Hour).UnixMilli(), crashQuick))
	disabled := life.add(strings.Replace(crashManual("disabled", crashQuick), "{", `{"enabled":false,`, 1))

	var held crashRunAnswer
	life.ask("cron.run", map[string]string{"id": holder, "mode": "force"}, &held)
	crashAwait(t, "the place is taken", func() bool { return s.effectsOf(held.RunID) == 1 })
	accepted := map[string]string{} // job: run
	for _, id := range []string{never, soon, disabled} {
		var answer crashRunAnswer
		life.ask("cron.run", map[string]string{"id": id, "mode": "force"}, &answer)
		if answer.RunID == "" {
			t.Fatalf("no run: %s", answer.Reason)
		}
		accepted[id] = answer.RunID
	}
	life.kill()

	life = s.start(binary, crashStart{}).serves()
	crashAwait(t, "the accepted runs started", func() bool { return len(s.readEffects()) == 4 })
	crashAwait(t, "nothing is running", func() bool {
		for _, j := range life.jobs() {
			if j.State.RunningAtMs != 0 {
				return false
			}
		}
		return true
	})
	life.terminate()
	l := s.ledger()
	for id, runID := range accepted {
		runs := l.of(id)
		if len(runs) != 1 || runs[0].RunID != runID || runs[0].Status != "ok" || s.effectsOf(runID) != 1 {
			t.Errorf("accepted as %s, became %+v", runID, runs)
		}
	}
	if runs := l.of(holder); len(runs) != 1 || runs[0].Interrupted == nil {
		t.Errorf("the run that held the place is %+v, want interrupted", runs)
	}
	if next := l.jobs[soon].state.NextRunAtMs; !l.jobs[soon].enabled || next < time.Now().UnixMilli() {
		t.Errorf("the one-shot's own slot is gone: next run at %d", next)
	}
}

// One key asks for one run, however often and whenever it is sent.
func TestCase106OneKeyOneRunAcrossARestart(t *testing.T) {
	t.Parallel()
	s, binary := newCrashSite(t), crashPlain(t)
	life := s.start(binary, crashStart{}).serves()
	id := life.add(crashManual("pressed twice", crashQuick+"; sleep 0.3"))
	ask := func(key string) crashRunAnswer {
		var answer crashRunAnswer
		life.ask("cron.run", map[string]string{"id": id, "mode": "force", "requestKey": key}, &answer)
		return answer
	}
	var both [2]crashRunAnswer
	var errs [2]error
	var wg sync.WaitGroup
	for i := range both {
		c := life.dial()
		if c == nil {
			t.Fatalf("the daemon is gone\n%s", s.logTail())
		}
		defer c.Close()
		wg.Go(func() { both[i], errs[i] = crashRun(c, id, "pressed") })
	}
	wg.Wait()
	if both[0].RunID == "" || both[0] != both[1] {
		t.Fatalf("at the same time: %+v %v", both, errs)
	}
	life.terminate()
	life = s.start(binary, crashStart{}).serves()
	if again := ask("pressed"); again.RunID != both[0].RunID {
		t.Errorf("after a restart: %+v, want %s", again, both[0].RunID)
	}
	life.kill()
	life = s.start(binary, crashStart{}).serves()
	if again := ask("pressed"); again.RunID != both[0].RunID {
		t.Errorf("after a kill: %+v, want %s", again, both[0].RunID)
	}
	// Two other keys: two runs, or the second is told that one is open.
	first, second := ask("once more"), ask("and again")
	if first.RunID == "" || first.RunID == both[0].RunID || second.RunID == first.RunID || second.RunID == "" && second.Reason != "already-running" {
		t.Errorf("other keys: %+v, %+v", first, second)
	}
	l := life.rest()
	for _, runID := range []string{both[0].RunID, first.RunID} {
		if n := s.effectsOf(runID); n != 1 {
			t.Errorf("run %s started %d times", runID, n)
		}
	}
	if n := len(l.of(id)); n != len(s.readEffects()) {
		t.Errorf("%d entries, %d starts", n, len(s.readEffects()))
	}
}

// Ten restarts in a row, stopped and killed at random points of the start: no
// deadline moves, and every job fires at its next slot, once.
func TestCase108RapidRestarts(t *testing.T) {
	t.Parallel()
	const jobs, restarts = 22, 10
	s, binary := newCrashSite(t), crashPlain(t)
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	life := s.start(binary, crashStart{}).serves()
	slot := time.Now().Add(20 * time.Second).Truncate(time.Second)
	slots := map[string]time.Time{}
	for i := range jobs {
		at := slot.Add(time.Duration(i%3) * time.Second)
		slots[life.add(crashDaily(fmt.Sprintf("daily-%d", i), at, crashQuick))] = at
	}
	for i := range restarts {
		if i%2 == 0 {
			life.kill()
		} else if exit, _ := life.terminate(); exit > 0 && exit != exitInterrupted {
			t.Fatalf("restart %d: exit code %d\n%s", i, exit, s.logTail())
		}
		life.lockGone()
		if l := s.ledger(); time.Now().Before(slot) {
			for id, at := range slots {
				if next := l.jobs[id].state.NextRunAtMs; next != at.UnixMilli() {
					t.Fatalf("after restart %d the next run of %s is at %d, want %d", i, id, next, at.UnixMilli())
				}
			}
		}
		life = s.start(binary, crashStart{})
		moment := time.After(time.Duration(rng.IntN(300)) * time.Millisecond)
		select {
		case <-moment:
		case <-life.gone:
			t.Fatalf("start %d failed\n%s", i, s.logTail())
		}
	}
	life.serves()
	crashAwait(t, "every job has fired", func() bool {
		fired := 0
		for _, j := range life.jobs() {
			if j.LastRunAtMs != 0 {
				fired++
			}
		}
		return fired == jobs
	})
	l := life.rest()
	for id, at := range slots {
		runs := l.of(id)
		if len(runs) != 1 || runs[0].Status != "ok" || runs[0].SlotMs != at.UnixMilli() || s.effectsOf(runs[0].RunID) != 1 {
			t.Errorf("slot %d of %s gave %+v", at.UnixMilli(), id, runs)
		}
		if next, want := l.jobs[id].state.NextRunAtMs, at.AddDate(0, 0, 1).UnixMilli(); next != want {
			t.Errorf("next run of %s at %d, want %d", id, next, want)
		}
	}
}
