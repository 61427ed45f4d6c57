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
			if _, ok := j.nextPlan(); !ok && !(isOpen && open.timed()) {
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

// walkSteps is what may happen, by weight.
var walkSteps = []struct {
	weight int
	do     func(*walker, string)
}{
	{1, (*walker).addJob},
	{4, func(k *walker, _ string) {
		by := k.upTo(2 * time.Minute)
		k.say("advance %v", by)
		k.d.advance(by)
	}},
	{4, (*walker).endOne},
	{1, (*walker).ask},
	{1, func(k *walker, id string) {
		k.edit(id, []string{`{"enabled":false}`, `{"enabled":true}`, `{"name":"x"}`, `{"schedule":` + k.sched() + `}`,
			`{"enabled":true,"schedule":` + k.sched() + `}`}[k.r.IntN(5)], k.r.IntN(3) == 0)
	}},
	{1, func(k *walker, id string) {
		k.edit(id, []string{`{"dst":"skip"}`, `{"dst":"vixie"}`, `{"dst":null}`}[k.r.IntN(3)], false)
	}},
	{1, func(k *walker, id string) {
		if k.r.IntN(3) == 0 {
			_, err := k.d.do(RemoveJob{ID: id})
			k.say("remove %s %v", id, err)
		}
	}},
	{1, func(k *walker, _ string) {
		for o := range k.d.w.st.open.Values() {
			_, err := k.d.do(StopRun{RunID: o.RunID})
			k.say("stop %s %v", o.JobID, err)
			break
		}
	}},
	{2, func(k *walker, _ string) { k.kill() }},
	{1, func(k *walker, _ string) { k.configure() }},
	{1, func(k *walker, _ string) {
		by, point := k.upTo(time.Minute), []string{"begin", "exec", "savepoint", "commit", "commit-lost", "commit-unknown"}[k.r.IntN(6)]
		k.say("advance %v with a fault at %s", by, point)
		k.d.fault = k.nth(point, 1+k.r.IntN(6))
		k.d.advance(by)
		k.d.fault = nil
	}},
}

// step does one of them.
func (k *walker) step() {
	id := k.pick()
	if id == "" {
		k.addJob("")
		return
	}
	total := 0
	for _, s := range walkSteps {
		total += s.weight
	}
	draw := k.r.IntN(total)
	for _, s := range walkSteps {
		if draw -= s.weight; draw < 0 {
			s.do(k, id)
			return
		}
	}
}

func (k *walker) upTo(most time.Duration) time.Duration {
	return time.Duration(k.r.Int64N(most.Milliseconds())) * time.Millisecond
}

// nth is a fault of the nth call at a point.
func (k *walker) nth(point string, n int) func(string) error {
	return func(at string) error {
		if at == point {
			if n--; n == 0 {
				return store.IO
			}
		}
		return nil
	}
}

func (k *walker) addJob(string) {
	if k.d.w.st.jobs.Len() >= 6 {
		return
	}
	k.n++
	more := []string{"", `,"catchUp":{"policy":"all","limit":3}`, `,"catchUp":{"policy":"skip"}`}[k.r.IntN(3)]
	s := k.sched()
	k.say("add j%d %s %s", k.n, s, more)
	k.d.add(fmt.Sprint("j", k.n), s, more)
}

func (k *walker) edit(id, patch string, stop bool) {
	_, err := k.d.do(UpdateJob{ID: id, Patch: json.RawMessage(patch), Stop: stop})
	k.edited[id] = true
	k.say("edit %s %s %v", id, patch, err)
}

func (k *walker) ask(id string) {
	mode := []string{"force", "if-enabled", "due"}[k.r.IntN(3)]
	k.n++
	v, err := k.d.do(RunJob{ID: id, Mode: mode, Key: fmt.Sprint("k", k.n), Given: k.r.IntN(2) == 0})
	k.say("run %s %s -> %+v %v", id, mode, v, err)
}

// endOne ends one of the active runs.
func (k *walker) endOne(string) {
	for a := range k.d.w.st.active.Values() {
		if k.r.IntN(2) == 0 {
			continue
		}
		for _, l := range k.d.launched {
			if l.ReceiptID == a.ReceiptID {
				k.say("end %s", l.JobID)
				k.d.end(l, []Status{StatusOK, StatusError}[k.r.IntN(2)])
				return
			}
		}
	}
}

// kill stops the worker in its tracks, lets time go by, and starts it again,
// perhaps with further crashes in the middle of recovery. Of what was active,
// some is in the launch log.
func (k *walker) kill() {
	d := k.d
	o := Options{LogID: "log"}
	for a := range d.w.st.active.Values() {
		if k.r.IntN(2) == 0 {
			o.Logged = append(o.Logged, Logged{ReceiptID: a.ReceiptID, BootID: "boot-1"})
		} else {
			k.unstarted[a.ReceiptID] = true
		}
	}
	down := k.upTo(15 * time.Minute)
	k.say("kill, down %v, logged %d of %d", down, len(o.Logged), d.w.st.active.Len())
	d.close()
	d.nowMs += down.Milliseconds()
	for k.r.IntN(2) == 0 {
		point := []string{"exec", "commit", "commit-lost", "begin", "commit-unknown"}[k.r.IntN(5)]
		d.fault = k.nth(point, 1+k.r.IntN(8))
		k.say("start with a fault at %s: %v", point, k.tryStart(o))
		d.fault = nil
		d.nowMs += k.upTo(30 * time.Second).Milliseconds()
	}
	d.open(o)
}

// configure pushes a configuration, and after a while one that lets work go on.
func (k *walker) configure() {
	push := func(enabled bool, places int) {
		k.d.cfg.Version++
		k.d.cfg.Enabled, k.d.cfg.MaxConcurrent = enabled, places
		k.d.w.Configure(k.d.cfg)
		k.say("config enabled=%v places=%d", enabled, places)
		k.d.turn()
	}
	push(k.r.IntN(3) != 0, k.r.IntN(4))
	k.d.advance(k.upTo(3 * time.Minute))
	push(true, 3)
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
		if _, waits := j.attempting(); waits {
			next = 0 // what a wait jumps over is decided when it is over
		}
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
