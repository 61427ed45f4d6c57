package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
)

// The simulation is a machine with everybody on it: the real turn over the real
// file, a launcher and hosts that are models, clocks that step, and kills in the
// middle of anything. It runs in one goroutine and draws every choice from one
// seed, so a seed is a replay:
//
//	ROTA_SIM_SEED=17 go test ./worker -run TestSimulation -v
//
// prints what happened; ROTA_SIM_JOB=j3 beside it also how that job's state went. After every turn it checks the rules in
// simulation_rules_test.go; at the end it lets everything come to rest, counts
// every slot and every run, and hashes the trace.

// simulationSteps is the length of one seed.
const simulationSteps = 250

type simulation struct {
	m       *machine
	rng     *rand.Rand
	seed    uint64
	trace   hash.Hash
	tail    []string // the last lines of the trace
	talk    bool     // print it
	watched string   // the job that is watched, as it was printed last
	host    simHost
	launch  simLauncher
	events  *Subscription
	rules   simRules
	highMs  int64 // the greatest wall time so far
	kills   int
}

// newSimulation is the first start of a machine, with its hosts and launcher.
func newSimulation(t testing.TB, seed uint64) *simulation {
	s := &simulation{m: newMachine(t, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC).UnixMilli()), rng: rand.New(rand.NewPCG(seed, 7)), seed: seed,
		trace: sha256.New(), talk: os.Getenv("ROTA_SIM_SEED") != ""}
	s.host.init()
	s.launch.init()
	s.rules.init()
	s.m.arms = seed%2 == 1
	c := &s.m.cfg
	c.MaxConcurrent, c.CatchUpMaxImmediate, c.CatchUpStaggerMs = 3, 1, 30_000
	c.ReceiptsPerJob = 4 // the mark, and not the receipts, keeps a slot from running twice
	// Every run and decision is kept, to be counted at the end.
	c.HistoryDays, c.HistoryRowsPerJob, c.DecisionDays, c.Events = 10_000, 1_000_000, 10_000, 1_000_000_000
	s.m.take, s.m.look = s.taken, s.check
	t.Cleanup(func() {
		if t.Failed() && !s.talk {
			t.Log("what led to it:\n" + strings.Join(s.tail[max(0, len(s.tail)-60):], "\n"))
		}
	})
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	s.settle()
	return s
}

// say adds a line to the trace.
func (s *simulation) say(format string, a ...any) {
	line := fmt.Sprintf("%s ", time.UnixMilli(s.m.nowMs).UTC().Format("01-02T15:04:05.000")) + fmt.Sprintf(format, a...)
	line = strings.ReplaceAll(line, s.m.path, "the file") // it has another name each time
	_, _ = s.trace.Write([]byte(line + "\n"))             // a hash takes everything
	if s.tail = append(s.tail, line); len(s.tail) > 400 {
		s.tail = s.tail[200:]
	}
	if s.talk {
		s.m.t.Log(line)
		s.watch()
	}
}

// watch prints the state of the job that ROTA_SIM_JOB names when it changed.
func (s *simulation) watch() {
	if s.m.w == nil {
		return
	}
	j, ok := s.m.w.st.jobs.Get(os.Getenv("ROTA_SIM_JOB"))
	if !ok {
		return
	}
	if now := fmt.Sprintf("%s plan %v retry %v", j.State, j.plan, deref(j.retry)); now != s.watched {
		s.m.t.Logf("        %s is now %s", j.ID, now)
		s.watched = now
	}
}

// fail ends the seed with what led to it.
func (s *simulation) fail(format string, a ...any) {
	s.m.t.Helper()
	s.m.t.Fatalf("seed %d: %s\nreplay: ROTA_SIM_SEED=%d go test ./worker -run TestSimulation -v", s.seed, fmt.Sprintf(format, a...), s.seed)
}

// run takes steps, lets all come to rest, and gives the hash of the trace.
func (s *simulation) run(steps int) string {
	for n := range steps {
		s.step()
		if n == steps/2 {
			s.account()
		}
	}
	s.rest()
	s.account()
	s.atRest()
	return hex.EncodeToString(s.trace.Sum(nil))
}

// chance is true once in n.
func (s *simulation) chance(n int) bool { return s.rng.IntN(n) == 0 }

func (s *simulation) upTo(most time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(most.Milliseconds())) * time.Millisecond
}

func pick[T any](s *simulation, list ...T) T { return list[s.rng.IntN(len(list))] }

// simulationMoves are what may happen, by weight.
var simulationMoves = []struct {
	weight int
	do     func(*simulation)
}{
	{22, func(s *simulation) { s.passes(s.upTo(90 * time.Second)) }},
	{24, (*simulation).launcherWorks},
	{3, (*simulation).hostAdds},
	{8, (*simulation).hostEdits},
	{8, (*simulation).hostRuns},
	{1, (*simulation).hostRemoves},
	{2, (*simulation).hostStops},
	{2, (*simulation).hostReads},
	{2, (*simulation).hostConfigures},
	{2, (*simulation).launcherRepeats},
	{1, func(s *simulation) { s.m.away = !s.m.away }},
	{3, (*simulation).clockMoves},
	{3, (*simulation).faulty},
	{3, (*simulation).killed},
	{1, (*simulation).stopped},
}

// step does one thing, and most of the time lets the worker come to rest after
// it; otherwise messages gather for the next turn.
func (s *simulation) step() {
	total := 0
	for _, m := range simulationMoves {
		total += m.weight
	}
	draw := s.rng.IntN(total)
	for _, m := range simulationMoves {
		if draw -= m.weight; draw < 0 {
			m.do(s)
			break
		}
	}
	if !s.chance(4) {
		s.settle()
	}
}

// settle turns until nothing waits.
func (s *simulation) settle() {
	s.m.settle()
	s.rested()
}

// passes lets time go by with a turn at every deadline, and ends what ends.
func (s *simulation) passes(by time.Duration) {
	s.say("%v pass", by)
	s.m.advance(by)
	s.highMs = max(s.highMs, s.m.nowMs)
	s.launch.due(s)
}

// clockMoves steps the wall clock: a little back, far ahead, or a sleep. It is
// never set back so far that the worker would take it for a correction.
func (s *simulation) clockMoves() {
	by := pick(s, -s.upTo(20*time.Second), -s.upTo(40*time.Minute), s.upTo(time.Minute), s.upTo(8*time.Hour), s.upTo(8*time.Hour))
	if s.chance(12) {
		by = s.upTo(48 * time.Hour)
	}
	if s.m.nowMs+by.Milliseconds() < s.highMs-(80*time.Minute).Milliseconds() {
		return
	}
	s.m.nowMs += by.Milliseconds()
	s.highMs = max(s.highMs, s.m.nowMs)
	s.say("the clock steps by %v", by)
	if s.chance(2) { // noticed at once, or at the next look
		s.settle()
	}
	s.m.monoMs += s.upTo(time.Minute).Milliseconds()
}

// killedHere is what a kill in the middle of a turn unwinds with.
type killedHere struct{ point string }

// dies runs what may be killed and says whether it was.
func (s *simulation) dies(do func()) (died bool) {
	defer func() {
		if r := recover(); r != nil {
			k, ok := r.(killedHere)
			if !ok {
				panic(r)
			}
			s.say("killed at %s", k.point)
			died = true
		}
	}()
	do()
	return false
}

// arm lets the nth call at a point fail, or kills there.
func (s *simulation) arm(point string, nth int, class error) {
	s.m.fault = func(at string) error {
		if at != point {
			return nil
		}
		if nth--; nth != 0 {
			return nil
		}
		if class == nil {
			panic(killedHere{point})
		}
		return class
	}
}

// faulty lets time pass while one call of the store fails.
func (s *simulation) faulty() {
	point := pick(s, "begin", "exec", "savepoint", "commit", "commit-lost", "commit-unknown", "reopen")
	class := pick[error](s, store.IO, store.IO, store.DiskFull)
	nth := 1 + s.rng.IntN(8)
	by := s.upTo(90 * time.Second)
	s.say("%s fails at call %d: %v", point, nth, class)
	s.hostSpeaks()
	s.arm(point, nth, class)
	s.passes(by)
	s.settle()
	s.m.fault = nil
}

// hostSpeaks gives the next turn something to lose.
func (s *simulation) hostSpeaks() {
	pick(s, func(*simulation) {}, (*simulation).hostAdds, (*simulation).hostEdits, (*simulation).hostRuns, (*simulation).hostRuns)(s)
}

// killed kills the daemon between two turns or in the middle of one, and starts
// it again.
func (s *simulation) killed() {
	s.kills++
	if point := pick(s, "", "begin", "exec", "exec", "savepoint", "commit", "commit", "commit-unknown", "commit-unknown"); point != "" {
		s.hostSpeaks()
		s.arm(point, 1+s.rng.IntN(6), nil)
		s.dies(func() { s.passes(s.upTo(2 * time.Minute)); s.settle() })
	} else {
		s.say("killed at rest")
	}
	s.m.fault = nil
	s.host.answered(s) // who was answered before the end was answered
	s.launch.dies(s)
	s.m.kill()
	s.restart()
}

// restart lets some time go by and starts the daemon, perhaps with further
// deaths in the middle of recovery.
func (s *simulation) restart() {
	down := pick(s, 0, s.upTo(time.Second), s.upTo(15*time.Minute), s.upTo(15*time.Minute), s.upTo(6*time.Hour))
	down += time.Millisecond // no daemon starts in the moment in which another died
	s.m.nowMs += down.Milliseconds()
	s.m.monoMs += down.Milliseconds()
	s.highMs = max(s.highMs, s.m.nowMs)
	lost := false
	switch {
	case s.chance(6):
		s.m.boot, s.m.monoMs, lost = s.m.boot+1, 0, true
		s.say("down %v, and the machine boots", down)
	case s.chance(8):
		s.m.logID, s.m.log, lost = s.m.logID+"'", nil, true
		s.say("down %v, and the launch log is lost", down)
	default:
		s.say("down %v", down)
	}
	for _, receipt := range s.launch.lost {
		s.launch.unstarted[receipt] = !lost // else nothing vouches for it
	}
	s.launch.lost = nil
	s.m.away = false
	for s.chance(3) {
		point, nth := pick(s, "begin", "exec", "exec", "commit", "commit-unknown", "commit-lost"), 1+s.rng.IntN(10)
		s.arm(point, nth, pick[error](s, nil, store.IO))
		var err error
		died := s.dies(func() { err = s.start() })
		s.m.fault = nil
		if !died && err == nil {
			s.again()
			return
		}
		s.say("the start failed: killed %v, %v", died, err)
		if s.m.w != nil {
			s.m.kill()
		}
		s.m.nowMs += s.upTo(30 * time.Second).Milliseconds()
		s.highMs = max(s.highMs, s.m.nowMs)
	}
	if err := s.start(); err != nil {
		s.fail("the daemon does not start: %v", err)
	}
	s.again()
}

// start starts the daemon and listens to it.
func (s *simulation) start() error {
	if err := s.m.start(); err != nil {
		return err
	}
	s.events = s.m.w.Subscribe(4096)
	return nil
}

// again is a start after a death: hosts look what became of their commands.
func (s *simulation) again() {
	s.say("started")
	s.afterDeath()
	s.host.lookAgain(s)
	s.settle()
}

// stopped stops the daemon in order: runs get their end, what was handed out too
// late is taken back, and it starts again.
func (s *simulation) stopped() {
	s.settle()
	w := s.m.w
	w.stopping.Store(true)
	s.say("stops")
	s.m.away = false
	for range 100 {
		s.m.settle()
		s.launch.stops(s)
		if s.m.settle(); w.st.active.Len() == 0 && !w.takeBack() && w.outcomes.len() == 0 {
			break
		}
	}
	if n := w.st.active.Len(); n > 0 {
		s.fail("stopped with %d active runs", n)
	}
	s.launch.dies(s)
	s.m.kill()
	s.restart()
}

// rest ends what runs until nothing is open, planned or owed.
func (s *simulation) rest() {
	s.say("comes to rest")
	s.m.away, s.m.fault = false, nil
	s.host.configure(s, true, 3)
	for range 400 {
		s.settle()
		s.launch.endAll(s)
		s.settle()
		if open := s.m.w.st.open.Len() + s.m.w.st.queue.Len() + s.m.w.st.active.Len(); open > 0 {
			continue
		}
		if len(s.m.query(`SELECT job_id FROM rota_plan UNION ALL SELECT job_id FROM rota_retries UNION ALL SELECT job_id FROM rota_outbox`)) == 0 {
			return
		}
		s.passes(time.Minute)
	}
	s.fail("it does not come to rest: %s", sketch(&s.m.w.st))
}

// simulationSeeds are the seeds of a normal, a short and a planted run.
func simulationSeeds(t *testing.T) []uint64 {
	count := 200
	if testing.Short() {
		count = 5 // the race detector makes SQLite slow
	}
	if text := os.Getenv("ROTA_SIM_SEEDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		count = n
	}
	if text := os.Getenv("ROTA_SIM_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	seeds := make([]uint64, count)
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	return seeds
}

func TestSimulation(t *testing.T) {
	if os.Getenv("ROTA_SIM_UNTIL") == "found" { // a bug is planted: its first seed is what counts
		for _, seed := range simulationSeeds(t) {
			if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { newSimulation(t, seed).run(simulationSteps) }) {
				return
			}
		}
		return
	}
	for _, seed := range simulationSeeds(t) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			newSimulation(t, seed).run(simulationSteps)
		})
	}
}

// TestSimulationIsDeterministic replays seeds: the same seed gives the same
// trace, down to the events and answers.
func TestSimulationIsDeterministic(t *testing.T) {
	for _, seed := range simulationSeeds(t)[:min(8, len(simulationSeeds(t)))] {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			a, b := newSimulation(t, seed), newSimulation(t, seed)
			if x, y := a.run(simulationSteps), b.run(simulationSteps); x != y {
				t.Errorf("two runs of seed %d differ: %s and %s", seed, x, y)
			}
		})
	}
}

// BenchmarkSimulation measures steps a second, the checks after every turn
// included.
func BenchmarkSimulation(b *testing.B) {
	steps, kills := 0, 0
	for seed := uint64(1000); b.Loop(); seed++ {
		s := newSimulation(b, seed)
		s.run(simulationSteps)
		steps, kills = steps+simulationSteps, kills+s.kills
		s.m.kill()
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
	b.ReportMetric(float64(kills)/float64(steps), "kills/step")
}
