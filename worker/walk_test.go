package worker

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
)

// walker takes random steps on a desk: commands, ends of runs, time, kills in
// the middle of anything and of recovery, failed and unknown commits, pushed
// configurations. After each step it checks what must always hold.
type walker struct {
	d         *desk
	r         *rand.Rand
	n         int
	log       []string
	mark      map[string]int64
	edited    map[string]bool
	unstarted map[string]bool
	count     map[string]int
	slotBy    map[string]string
	seen      int
}

// say keeps what was done, for a failure.
func (k *walker) say(f string, a ...any) {
	k.log = append(k.log, fmt.Sprintf("%s ", time.UnixMilli(k.d.nowMs).UTC().Format("15:04:05.000"))+fmt.Sprintf(f, a...))
}
func (k *walker) fail(f string, a ...any) {
	k.d.t.Helper()
	for _, l := range k.log[max(0, len(k.log)-40):] {
		k.d.t.Log(l)
	}
	k.d.t.Fatalf(f, a...)
}

// check is what must hold after every step: nothing launched twice, no mark that
// falls, no job stuck, no deadline at or below the mark, no plan left behind.
func (k *walker) check() {
	d := k.d
	for ; k.seen < len(d.launched); k.seen++ {
		l := d.launched[k.seen]
		if k.count[l.ReceiptID] > 0 && !k.unstarted[l.ReceiptID] {
			k.fail("receipt launched twice: %+v", l)
		}
		delete(k.unstarted, l.ReceiptID)
		k.count[l.ReceiptID]++
		k.say("launched %s %s slot %s", l.JobID, l.Trigger, schedule.FormatInstant(l.SlotMs))
		if l.SlotMs != 0 {
			key := fmt.Sprint(l.JobID, l.SlotMs)
			if was, ok := k.slotBy[key]; ok && was != l.ReceiptID {
				if j, ok := d.w.st.jobs.Get(l.JobID); ok && !j.timedOneShot() {
					k.fail("slot twice: %+v", l)
				}
			}
			k.slotBy[key] = l.ReceiptID
		}
	}
	for j := range d.w.st.jobs.Values() {
		if c := j.state.RotaConsumedMs.N; c < k.mark[j.ID] {
			k.fail("mark of %s fell", j.ID)
		} else {
			k.mark[j.ID] = c
		}
		next, has := j.NextRunMs()
		open, isOpen := d.w.st.open.Get(j.ID)
		if j.Enabled && !j.timedOneShot() && !has {
			k.fail("recurring %s without a deadline: %s", j.ID, j.State)
		}
		if j.Enabled && j.timedOneShot() && !has && !isOpen {
			k.fail("one-shot %s enabled without a deadline: %s %s", j.ID, j.State, d.decisions(j.ID))
		}
		if has && !j.timedOneShot() && !j.state.StartupCatchupAtMs.Set && next <= j.state.RotaConsumedMs.N {
			k.fail("deadline of %s at or below the mark: %s", j.ID, j.State)
		}
		if len(j.plan) > 0 {
			if _, ok := j.nextPlan(); !ok && !(isOpen && open.SlotMs == j.plan[0].SlotMs) {
				k.fail("stale plan of %s: %v %s open=%v", j.ID, j.plan, j.State, isOpen)
			}
		}
		if !j.Enabled && has {
			k.fail("disabled %s has a deadline", j.ID)
		}
	}
}

func (k *walker) pick() string {
	var ids []string
	for j := range k.d.w.st.jobs.Values() {
		ids = append(ids, j.ID)
	}
	if len(ids) == 0 {
		return ""
	}
	return ids[k.r.IntN(len(ids))]
}

func (k *walker) sched() string {
	switch k.r.IntN(4) {
	case 0:
		return fmt.Sprintf(`{"kind":"every","everyMs":%d}`, (1+k.r.IntN(300))*1000)
	case 1:
		return fmt.Sprintf(`{"kind":"at","at":"+%ds"}`, 1+k.r.IntN(600))
	case 2:
		return fmt.Sprintf(`{"kind":"cron","expr":"*/%d * * * *","tz":"UTC","staggerMs":0}`, 1+k.r.IntN(10))
	}
	return `{"kind":"cron","expr":"*/20 * * * * *","tz":"UTC","staggerMs":0}`
}

func (k *walker) step() {
	d, r := k.d, k.r
	id := k.pick()
	if id == "" {
		k.n++
		d.add(fmt.Sprint("j", k.n), k.sched())
		return
	}
	switch r.IntN(18) {
	case 0:
		if d.w.st.jobs.Len() < 6 {
			k.n++
			more := []string{"", `,"catchUp":{"policy":"all","limit":3}`, `,"catchUp":{"policy":"skip"}`}[r.IntN(3)]
			s := k.sched()
			k.say("add j%d %s %s", k.n, s, more)
			d.add(fmt.Sprint("j", k.n), s, more)
		}
	case 1, 2, 3, 4:
		by := time.Duration(r.IntN(120_000)) * time.Millisecond
		k.say("advance %v", by)
		d.advance(by)
	case 5, 6, 7, 8:
		for a := range d.w.st.active.Values() {
			if r.IntN(2) == 0 {
				for _, l := range d.launched {
					if l.ReceiptID == a.ReceiptID {
						k.say("end %s", l.JobID)
						d.end(l, []Status{StatusOK, StatusError}[r.IntN(2)])
						break
					}
				}
				break
			}
		}
	case 9:
		mode := []string{"force", "if-enabled", "due"}[r.IntN(3)]
		k.n++
		v, err := d.do(RunJob{ID: id, Mode: mode, Key: fmt.Sprint("k", k.n), Given: r.IntN(2) == 0})
		k.say("run %s %s -> %+v %v", id, mode, v, err)
	case 10:
		p := []string{`{"enabled":false}`, `{"enabled":true}`, `{"name":"x"}`, `{"schedule":` + k.sched() + `}`, `{"enabled":true,"schedule":` + k.sched() + `}`}[r.IntN(5)]
		_, err := d.do(UpdateJob{ID: id, Patch: json.RawMessage(p), Stop: r.IntN(3) == 0})
		k.edited[id] = true
		k.say("edit %s %s %v", id, p, err)
	case 11:
		if r.IntN(3) == 0 {
			k.say("remove %s", id)
			d.do(RemoveJob{ID: id})
		}
	case 12:
		for o := range d.w.st.open.Values() {
			k.say("stop %s", o.JobID)
			d.do(StopRun{RunID: o.RunID})
			break
		}
	case 13, 14:
		// a kill: of what is active, some are in the launch log
		o := Options{LogID: "log"}
		for a := range d.w.st.active.Values() {
			if r.IntN(2) == 0 {
				o.Logged = append(o.Logged, Logged{ReceiptID: a.ReceiptID, BootID: "boot-1"})
			} else {
				k.unstarted[a.ReceiptID] = true
			}
		}
		down := time.Duration(r.IntN(900_000)) * time.Millisecond
		k.say("kill, down %v, logged %d of %d", down, len(o.Logged), d.w.st.active.Len())
		d.close()
		d.nowMs += down.Milliseconds()
		for r.IntN(2) == 0 { // a second crash in the middle of recovery
			left, point := 1+r.IntN(8), []string{"exec", "commit", "commit-lost", "begin", "commit-unknown"}[r.IntN(5)]
			d.fault = func(at string) error {
				if at == point {
					if left--; left == 0 {
						return store.IO
					}
				}
				return nil
			}
			err := k.tryStart(o)
			k.say("start with fault %s: %v", point, err)
			d.fault = nil
			d.nowMs += int64(r.IntN(30_000))
		}
		d.open(o)
	case 16:
		c := d.cfg
		c.Version++
		c.Enabled = r.IntN(3) != 0
		c.MaxConcurrent = r.IntN(4)
		d.cfg = c
		d.w.Configure(c)
		k.say("config enabled=%v places=%d", c.Enabled, c.MaxConcurrent)
		d.turn()
		d.fault = nil
		if !c.Enabled || c.MaxConcurrent == 0 {
			d.advance(time.Duration(r.IntN(200_000)) * time.Millisecond)
			c.Version++
			c.Enabled, c.MaxConcurrent = true, 3
			d.cfg = c
			d.w.Configure(c)
			d.turn()
		}
	case 17:
		{
			_, err := d.do(UpdateJob{ID: id, Patch: json.RawMessage([]string{`{"dst":"skip"}`, `{"dst":"vixie"}`, `{"dst":null}`}[r.IntN(3)])})
			k.say("dst %s %v", id, err)
			k.edited[id] = true
		}
	case 15:
		point := []string{"begin", "exec", "savepoint", "commit", "commit-lost", "commit-unknown"}[r.IntN(6)]
		left := 1 + r.IntN(6)
		d.fault = func(at string) error {
			if at == point {
				if left--; left == 0 {
					return store.IO
				}
			}
			return nil
		}
		k.say("fault %s", point)
		d.advance(time.Duration(r.IntN(60_000)) * time.Millisecond)
		d.fault = nil
	}
}

// tryStart begins a start that may fail in the middle of recovery.
func (k *walker) tryStart(o Options) error {
	d := k.d
	s, err := store.Open(store.Options{Path: d.path, Durability: store.Normal, NowMs: d.nowMs, Fault: func(point string) error {
		if d.fault == nil {
			return nil
		}
		return d.fault(point)
	}})
	if err != nil {
		k.fail("open: %v", err)
	}
	o.Store, o.Config, o.PID, o.BootID = s, d.cfg, 7, "boot-1"
	o.Clock = Clock{WallMs: func() int64 { return d.nowMs }, MonoMs: func() int64 { return d.monoMs }, Timer: func(time.Duration) (<-chan time.Time, func() bool) {
		fired := make(chan time.Time, 1)
		fired <- time.Time{}
		return fired, func() bool { return true }
	}}
	w := New(o)
	err = w.start()
	s.Close()
	return err
}

// account checks at the end that every natural slot of a recurring job that nobody edited ran or has a decision, not both.
func (k *walker) account() {
	d := k.d
	for j := range d.w.st.jobs.Values() {
		if j.timedOneShot() || k.edited[j.ID] {
			continue
		}
		ran := map[int64]bool{}
		for _, l := range d.launched {
			if l.JobID == j.ID && l.SlotMs != 0 {
				ran[l.SlotMs] = true
			}
		}
		if o, ok := d.w.st.open.Get(j.ID); ok {
			ran[o.SlotMs] = true
		}
		for _, p := range j.plan {
			ran[p.SlotMs] = true
		}
		for _, s := range d.query(`SELECT detail_json ->> '$.slotMs' FROM task_runs WHERE source_id=? AND detail_json ->> '$.slotMs' IS NOT NULL`, j.ID) {
			n, _ := strconv.ParseInt(s, 10, 64)
			ran[n] = true
		}
		var ranges [][2]int64
		for _, s := range d.query(`SELECT from_ms || ' ' || to_ms FROM rota_slots WHERE job_id=?`, j.ID) {
			var a, b int64
			fmt.Sscan(s, &a, &b)
			ranges = append(ranges, [2]int64{a, b})
		}
		next, _ := j.NextRunMs()
		for at, ok := j.timing.Next(j.def.CreatedAtMs); ok && at <= min(d.nowMs, max(next-1, j.state.RotaConsumedMs.N)); at, ok = j.timing.Next(at) {
			n := 0
			for _, r := range ranges {
				if r[0] <= at && at <= r[1] {
					n++
				}
			}
			if ran[at] {
				n++
			}
			if n != 1 {
				k.fail("slot %s of %s is accounted %d times (ran %v) rows %v state %s", schedule.FormatInstant(at), j.ID, n, ran[at], d.decisions(j.ID), j.State)
			}
		}
	}
}

// TestWalk takes random walks; the seed is the subtest's name:
// go test ./worker -run TestWalk/seed=17
func TestWalk(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:00:00Z")
			d.cfg.MaxConcurrent = 3
			d.cfg.CatchUpMaxImmediate, d.cfg.CatchUpStaggerMs = 1, 30_000
			d.restart(0)
			k := &walker{d: d, r: rand.New(rand.NewPCG(seed, 3)), mark: map[string]int64{}, edited: map[string]bool{},
				unstarted: map[string]bool{}, count: map[string]int{}, slotBy: map[string]string{}}
			for range 150 {
				k.step()
				k.check()
			}
			k.account()
		})
	}
}
