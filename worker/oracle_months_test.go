package worker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMonthsAgainstTheOracle lets two hundred jobs of all kinds live through two
// months around the changes of the clocks, in autumn and in spring, with
// restarts, downtime, sleeps and small steps at random moments. Then the oracle
// names every slot of every job, and the ledger must have each exactly once: as
// a run, or in one decision; and no run may be for anything but a slot.
// ROTA_ORACLE=long takes a year instead.
func TestMonthsAgainstTheOracle(t *testing.T) {
	spans := [][2]string{{"2026-10-01T00:00:00Z", "2026-12-01T00:00:00Z"}, {"2027-02-15T00:00:00Z", "2027-04-15T00:00:00Z"}}
	switch {
	case os.Getenv("ROTA_ORACLE") == "long":
		spans = [][2]string{{"2026-07-01T00:00:00Z", "2027-07-01T00:00:00Z"}}
	case testing.Short():
		spans = [][2]string{{"2026-10-24T00:00:00Z", "2026-10-26T00:00:00Z"}}
	}
	for i, span := range spans {
		t.Run(span[0][:10], func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			o := newOracleTrial(t, uint64(i+1), at(t, span[0]), at(t, span[1]))
			o.live()
			slots, runs := o.account()
			t.Logf("%d slots of %d jobs, %d of them ran; %d starts, %d sleeps; %v; seed %d",
				slots, len(o.jobs), runs, o.starts, o.sleeps, time.Since(began).Round(time.Millisecond), i+1)
		})
	}
}

type oracleTrial struct {
	m           *machine
	rng         *rand.Rand
	jobs        []*oracleJob
	began, ends int64
	// long are runs that take a while, with the monotonic time of their ends.
	long   map[string]int64
	starts int
	sleeps int
}

var oracleZones = []string{"Australia/Lord_Howe", "Antarctica/Troll", "America/Nuuk", "Pacific/Apia", "Asia/Kathmandu", "America/New_York",
	"Europe/Oslo", "Africa/Cairo", "Asia/Beirut", "America/Santiago", "Pacific/Auckland", "UTC", "Asia/Tokyo"}

// oracleExpressions lie where clocks change, by night, and elsewhere.
var oracleExpressions = []string{"30 2 * * *", "0 0 * * *", "15 1,2,3 * * *", "*/30 2 * * *", "0 */6 * * *", "45 1 * * 0", "0 0 1 * *",
	"5 0-4 * * *", "30 0,12 * * 1-5", "10 2 * * 6,0", "*/20 1-3 * * 6,0,1", "59 23 * * *", "0 3 15 * 1", "7 */8 * * *", "30 1 * * *",
	"0 2 25-31 3,10 *", "0 9 * * 1-5", "20 4 */10 * *", "0 * * * 0,6", "45 2 * * *"}

func newOracleTrial(t *testing.T, seed uint64, fromMs, toMs int64) *oracleTrial {
	o := &oracleTrial{m: newMachine(t, fromMs), rng: rand.New(rand.NewPCG(seed, 11)), began: fromMs, ends: toMs, long: map[string]int64{}}
	o.m.checking, o.m.take = false, o.take
	c := &o.m.cfg
	c.ReceiptsPerJob, c.Events = 4, 500
	c.HistoryDays, c.HistoryRowsPerJob, c.DecisionDays = 10_000, 1_000_000, 10_000
	o.start()
	for i := range 200 {
		j := &oracleJob{id: fmt.Sprintf("job-%03d", i), zone: oracleZones[i%len(oracleZones)]}
		switch {
		case i%10 == 0:
			j.kind, j.atMs = "at", fromMs+1000*(1+o.rng.Int64N((toMs-fromMs)/1000))
		case i%5 == 1:
			j.kind, j.every = "every", 60_000*(45+o.rng.Int64N(3*24*60))
			j.from = fromMs - o.rng.Int64N(j.every)
		default:
			j.kind, j.skip = "cron", o.rng.IntN(3) == 0
			copy(j.fields[:], strings.Fields(oracleExpressions[(i/2)%len(oracleExpressions)]))
			j.window = []int64{0, 0, 30_000, 300_000, 3_600_000}[o.rng.IntN(5)]
			if o.rng.IntN(6) == 0 {
				j.seconds = 30
			}
		}
		j.encode([]string{"", "", "", `,"catchUp":{"policy":"skip"}`, `,"catchUp":{"policy":"all","limit":4}`,
			`,"catchUp":{"policy":"all","maxLatenessMs":7200000}`}[o.rng.IntN(6)])
		if _, err := o.m.ask(AddJob{ID: j.id, Params: j.params}); err != nil {
			t.Fatalf("%s: %v", j.params, err)
		}
		o.jobs = append(o.jobs, j)
	}
	return o
}

func (o *oracleTrial) start() {
	o.starts++
	if err := o.m.start(); err != nil {
		o.m.t.Fatal(err)
	}
	o.m.settle()
}

// take is the launcher: most runs end at once, some take up to three hours.
func (o *oracleTrial) take(order Order) {
	switch l := order.Launch; {
	case l == nil:
	case o.rng.IntN(40) == 0:
		o.m.announce(l.ReceiptID)
		o.long[l.ReceiptID] = o.m.monoMs + o.rng.Int64N(3*3_600_000)
	default:
		o.end(l.ReceiptID)
	}
	if order.Settled != "" {
		o.m.forget(order.Settled)
	}
}

func (o *oracleTrial) end(receiptID string) {
	o.m.w.outcomes.put(Outcome{ReceiptID: receiptID, Status: StatusOK, Kind: KindExit, StartedAtMs: o.m.nowMs, EndedAtMs: o.m.nowMs})
}

// endLong ends what has run long enough, or everything.
func (o *oracleTrial) endLong(all bool) {
	for _, receiptID := range slices.Sorted(maps.Keys(o.long)) {
		if all || o.long[receiptID] <= o.m.monoMs {
			o.end(receiptID)
			delete(o.long, receiptID)
		}
	}
	o.m.settle()
}

// live goes through the months.
func (o *oracleTrial) live() {
	hours := func(n int64) time.Duration { return time.Duration(o.rng.Int64N(n*3_600_000)) * time.Millisecond }
	for o.m.nowMs < o.ends {
		switch o.rng.IntN(12) {
		case 0: // a restart, at once or after a while
			down := []time.Duration{0, hours(1), hours(14)}[o.rng.IntN(3)]
			o.m.kill()
			o.m.nowMs += down.Milliseconds()
			o.m.monoMs += down.Milliseconds()
			o.long = map[string]int64{}
			o.start()
		case 1: // the lid is closed: no clock but the wall's goes on
			o.sleeps++
			o.m.nowMs += hours(9).Milliseconds()
			o.m.settle()
		case 2:
			o.m.nowMs += o.rng.Int64N(120_000) - 60_000
			o.m.settle()
		default:
			for range 1 + o.rng.IntN(6) {
				o.m.advance(hours(3))
				o.endLong(false)
			}
		}
	}
	for range 1000 {
		if o.endLong(true); o.m.w.st.open.Len() == 0 && len(o.m.query(`SELECT job_id FROM rota_plan`)) == 0 {
			return
		}
		o.m.advance(time.Minute)
	}
	o.m.t.Fatal("it does not come to rest")
}

// account compares the ledger with the oracle, slot by slot.
func (o *oracleTrial) account() (slots, runs int) {
	walls := map[string]oracleWall{}
	for _, zone := range oracleZones {
		walls[zone] = newOracleWall(o.m.t, zone, o.began-2*86_400_000, o.m.nowMs)
	}
	ran, decided := o.ledger()
	for _, j := range o.jobs {
		want := j.slots(walls[j.zone], o.began, o.m.nowMs)
		got := map[int64]int{}
		for slotMs, n := range ran[j.id] {
			if got[slotMs] += n; !want[slotMs] {
				o.m.t.Errorf("%s ran for %s, which is no slot of %s", j.id, instantText(slotMs), j.params)
			}
			runs += n
		}
		for _, r := range decided[j.id] {
			covered := int64(0)
			for slotMs := range want {
				if r.fromMs <= slotMs && slotMs <= r.toMs {
					got[slotMs]++
					covered++
				}
			}
			if covered != r.slots || !want[r.fromMs] || !want[r.toMs] {
				o.m.t.Errorf("%s: the decision on %s..%s says %d slots, and there are %d: %s", j.id, instantText(r.fromMs), instantText(r.toMs), r.slots, covered, j.params)
			}
		}
		for slotMs := range want {
			if slots++; got[slotMs] != 1 && !o.ahead(j.id, slotMs) {
				o.m.t.Errorf("%s: slot %s is accounted for %d times: %s", j.id, instantText(slotMs), got[slotMs], j.params)
			}
		}
	}
	return slots, runs
}

// ahead reports whether a slot is still to come although the clock has shown it:
// the wall clock was set back before the end.
func (o *oracleTrial) ahead(jobID string, slotMs int64) bool {
	j, ok := o.m.w.st.jobs.Get(jobID)
	if !ok {
		return false
	}
	next, has := j.NextRunMs()
	return has && next <= slotMs && slotMs > o.m.nowMs
}

// ledger reads runs by job and slot, and decided ranges.
func (o *oracleTrial) ledger() (ran map[string]map[int64]int, decided map[string][]slotRange) {
	ran, decided = map[string]map[int64]int{}, map[string][]slotRange{}
	for _, line := range o.m.query(`SELECT source_id || ' ' || (detail_json ->> '$.slotMs') FROM task_runs`) {
		id, slot, _ := strings.Cut(line, " ")
		slotMs, err := strconv.ParseInt(slot, 10, 64)
		if err != nil {
			o.m.t.Fatal(err)
		}
		if ran[id] == nil {
			ran[id] = map[int64]int{}
		}
		ran[id][slotMs]++
	}
	for _, line := range o.m.query(`SELECT job_id || ' ' || from_ms || ' ' || to_ms || ' ' || slots FROM rota_slots`) {
		var id string
		var r slotRange
		if _, err := fmt.Sscan(line, &id, &r.fromMs, &r.toMs, &r.slots); err != nil {
			o.m.t.Fatal(err)
		}
		decided[id] = append(decided[id], r)
	}
	return ran, decided
}
