//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKillAnywhere kills the daemon at named points and at random moments, on
// one long-lived database and on fresh ones, while clients ask for runs and
// schedules fire every second. Whatever happens:
//
//   - what was acknowledged is in the ledger, and in the end has exactly one end
//   - no slot runs twice, no request key gives two runs, and no run starts twice
//   - a run that may have started ends as ok or, once, as interrupted
//   - nothing is stuck, the file is sound, and the launch log stays small
//
// The ledger is read from copies of the file with plain SQL, right after a
// kill and again when a start has settled everything. What is killed where is
// in testdata/crash/kills.txt.
//
// The short form runs by default. ROTA_CRASH=long runs the long one, which
// also demands its totals; give it time: go test -run TestKillAnywhere
// -timeout 60m. ROTA_CRASH_SEED=N repeats the draws of an earlier run; the
// moments of a machine cannot be repeated.
func TestKillAnywhere(t *testing.T) {
	t.Parallel()
	long := os.Getenv("ROTA_CRASH") == "long"
	x := newCrashTrial(t, crashPlain(t), crashArmed(t))
	kills := readCrashKills(t, long)
	x.rng.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })

	// A tenth of the kills goes to databases of their own.
	fresh, each := kills[len(kills)-len(kills)/10:], 3
	every := 2
	if long {
		each, every = 10, 8
	}
	x.kills(kills[:len(kills)-len(fresh)], every)
	for part := range slices.Chunk(fresh, each) {
		x.found()
		x.kills(part, every)
	}

	t.Log(x.summary())
	if x.unreached*20 > len(kills) {
		t.Errorf("%d of %d kills never came to their point", x.unreached, len(kills))
	}
	if long && (x.acked < 2000 || x.effects < 2000 || x.sends < 500 || x.requests < 200 || x.unknown < 20 || x.resumed < 50 || x.interrupted < 50) {
		t.Errorf("too little happened to prove anything: %s", x.summary())
	}
}

// crashKill is one way to kill.
type crashKill struct {
	point string // a named point, or "start", "serving", "reply"
	upTo  int    // hits, replies or milliseconds
	two   bool   // request and activation in two commits
}

func (k crashKill) named() bool {
	return k.point != "start" && k.point != "serving" && k.point != "reply"
}

// readCrashKills reads testdata/crash/kills.txt.
func readCrashKills(t *testing.T, long bool) []crashKill {
	t.Helper()
	raw, err := os.ReadFile(crashDocument("kills.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var all []crashKill
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		var numbers [3]int
		for i := range numbers {
			if len(words) != 4 {
				t.Fatalf("kills.txt: %q is not POINT LONG SHORT UP-TO", line)
			}
			if numbers[i], err = strconv.Atoi(words[i+1]); err != nil {
				t.Fatalf("kills.txt: %q: %v", line, err)
			}
		}
		count := numbers[1]
		if long {
			count = numbers[0]
		}
		for i := range count {
			all = append(all, crashKill{point: words[0], upTo: numbers[2], two: i%2 == 1})
		}
	}
	return all
}

// crashTrial kills daemons of one build, and counts.
type crashTrial struct {
	t            *testing.T
	plain, armed string
	seed         uint64
	rng          *rand.Rand
	site         *crashSite
	manual       []string // ids of the jobs that clients run
	refused      []string

	began                                          time.Time
	killed, unreached, sites, checks               int
	acked, effects, resumed, interrupted, lingered int // of the sites that are done with
	sends, requests, unknown                       int // likewise: what the receiver got, and deliveries cut off
}

func newCrashTrial(t *testing.T, plain, armed string) *crashTrial {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ROTA_CRASH_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("ROTA_CRASH_SEED: %v", err)
		}
		seed = n
	}
	x := &crashTrial{t: t, plain: plain, armed: armed, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), began: time.Now()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("ROTA_CRASH_SEED=%d repeats the draws", seed)
		}
	})
	x.found()
	return x
}

// found makes a site with the jobs of testdata/crash/jobs.json and the manual
// ones.
func (x *crashTrial) found() {
	x.site, x.sites = newCrashSite(x.t), x.sites+1
	jobs, err := filepath.Abs(crashDocument("jobs.json"))
	if err != nil {
		x.t.Fatal(err)
	}
	life := x.site.start(x.plain, crashStart{flags: []string{"--jobs", jobs}}).serves()
	x.manual = x.manual[:0]
	for i := range crashClients * crashJobsPerClient {
		script, delivery := crashQuick, ""
		switch i % crashJobsPerClient {
		case crashJobsPerClient - 1:
			script = crashSlow
		case crashJobsPerClient - 2:
			script, delivery = crashQuick+crashSays, x.site.receiver.delivery()
		}
		id := life.add(crashManual(fmt.Sprintf("manual-%d", i), script, delivery))
		x.site.journal.add(crashAck{JobID: id})
		x.manual = append(x.manual, id)
	}
	for _, params := range x.site.receiver.jobs() {
		life.add(params)
	}
	life.kill()
}

// crashLaunchLogBytes is what the launch log may grow to, however short the
// lives are.
const crashLaunchLogBytes = 1 << 20

// kills carries out kills on the present site and closes it: a look after each
// few of them, a settling look now and then and at the end.
func (x *crashTrial) kills(kills []crashKill, every int) {
	for i, k := range kills {
		x.kill(k)
		if (i+1)%every == 0 {
			x.report(x.look())
		}
		if (i+1)%(every*10) == 0 {
			x.report(x.settle())
		}
	}
	facts := x.settle()
	x.report(facts)
	if info, err := os.Stat(filepath.Join(x.site.dir, "launch.log")); err != nil {
		x.t.Error(err)
	} else if info.Size() > crashLaunchLogBytes {
		x.t.Errorf("the launch log has %d bytes after %d kills", info.Size(), x.killed)
	}
	x.acked, x.effects = x.acked+facts.accepted(), x.effects+len(facts.effects)
	x.sends, x.requests, x.unknown = x.sends+len(facts.hooks), x.requests+len(facts.requests), x.unknown+facts.unknown
	x.resumed, x.interrupted = x.resumed+facts.ledger.resumed, x.interrupted+facts.interrupted()
}

// kill is one life and its end.
func (x *crashTrial) kill(k crashKill) {
	x.t.Helper()
	n := 1 + x.rng.IntN(k.upTo)
	binary, how := x.plain, crashStart{}
	if k.named() {
		binary, how.env = x.armed, []string{fmt.Sprintf("ROTA_FAILPOINT=%s:%d", k.point, n)}
		if k.two {
			how.env = append(how.env, "ROTA_TWO_STEPS=1")
		}
	}
	killAt := 0
	if k.point == "reply" {
		killAt = n
	}
	life := x.site.start(binary, how)
	load := life.load(x.manual, killAt, x.rng)
	limit := crashPatience / 4
	switch k.point {
	case "serving":
		select {
		case <-load.replies:
		case <-life.gone:
		case <-time.After(limit):
		}
		fallthrough
	case "start":
		limit = time.Duration(n) * time.Millisecond
	}
	select {
	case <-life.gone:
	case <-time.After(limit):
		if k.point != "start" && k.point != "serving" {
			x.unreached++
		}
	}
	life.kill()
	x.killed++
	if err := load.end(); err != nil {
		x.refused = append(x.refused, err.Error())
	}
	if !life.endedBy(syscall.SIGKILL) {
		x.t.Fatalf("the daemon ended by itself (%v) before %s:%d\n%s", life.cmd.ProcessState, k.point, n, x.site.logTail())
	}
}

// look takes the facts as a kill left them.
func (x *crashTrial) look() *crashFacts {
	x.checks++
	f := &crashFacts{acks: x.site.journal.all(), refused: x.refused, kills: x.killed}
	f.hooks, f.requests = x.site.receiver.seen()
	ledger, err := readCrashLedger(x.site.db(), x.site.dir)
	if err != nil {
		x.t.Fatalf("%v\n%s", err, x.site.logTail())
	}
	f.ledger, f.effects = ledger, x.site.readEffects()
	return f
}

// settleTries bounds the starts until one stops with nothing in the queue: a
// stop in order leaves requests that wait, which is no fault.
const settleTries = 5

// settle gives a start the time to bring everything to its end, stops it in
// order, and takes the facts.
func (x *crashTrial) settle() *crashFacts {
	x.t.Helper()
	var f *crashFacts
	for range settleTries {
		life := x.site.start(x.plain, crashStart{}).serves()
		idle := life.fired()
		stoppedAtMs := time.Now().UnixMilli()
		if exit, _ := life.terminate(); exit != 0 {
			x.t.Fatalf("a stop in order gave exit code %d\n%s", exit, x.site.logTail())
		}
		f = x.look()
		f.stopped, f.settled, f.stoppedAtMs, f.idle = true, true, stoppedAtMs, idle
		if !f.ledger.open() || f.ledger.active() || len(idle) > 0 {
			break // at rest, or it will not come to rest
		}
	}
	return f
}

// fired waits until every recurring job has fired in this life and nothing
// else is open, and names the jobs for which it waited in vain.
func (l *crashLife) fired() (idle []string) {
	since := l.startedAt.UnixMilli()
	c := l.dial()
	if c == nil {
		l.site.t.Fatalf("the daemon is gone\n%s", l.site.logTail())
	}
	defer c.Close()
	crashWithin(crashPatience/3, func() bool {
		idle = idle[:0]
		var page struct{ Jobs []crashListed }
		if err := crashCall(c, "cron.list", map[string]any{"limit": 200, "compact": false}, &page); err != nil {
			l.site.t.Fatalf("cron.list: %v\n%s", err, l.site.logTail())
		}
		for _, j := range page.Jobs {
			recurs := j.recurring()
			if recurs && j.LastRunAtMs < since || !recurs && (j.State.RunningAtMs != 0 || j.Schedule.Kind == "at") {
				idle = append(idle, j.Name)
			}
		}
		return len(idle) == 0
	})
	return idle
}

// open reports whether a receipt is open.
func (l *crashLedger) open() bool {
	return slices.ContainsFunc(l.receipts, func(r crashReceiptRow) bool { return r.status == "running" })
}

// accepted counts the runs that were acknowledged.
func (f *crashFacts) accepted() (n int) {
	for _, a := range f.acks {
		if a.RunID != "" {
			n++
		}
	}
	return n
}

// active reports whether a job says that it is running.
func (l *crashLedger) active() bool {
	for _, j := range l.jobs {
		if j.state.RunningAtMs != 0 {
			return true
		}
	}
	return false
}

func (f *crashFacts) interrupted() (n int) {
	for _, r := range f.ledger.runs {
		if r.Interrupted != nil {
			n++
		}
	}
	return n
}

// report fails the test at the first violations.
func (x *crashTrial) report(f *crashFacts) {
	x.t.Helper()
	found := f.judge()
	for _, v := range found[:min(len(found), 20)] {
		x.t.Error(v)
	}
	if len(found) > 0 {
		x.t.Fatalf("%d violations after %d kills, seed %d\n%s", len(found), x.killed, x.seed, x.site.logTail())
	}
}

func (x *crashTrial) summary() string {
	return fmt.Sprintf("seed %d: %d kills on %d databases in %v, %d looks; %d acknowledged, %d effects, %d requests, %d sends, %d deliveries unknown, %d resumed, %d interrupted, %d never at their point, %d locks lingered",
		x.seed, x.killed, x.sites, time.Since(x.began).Round(time.Second), x.checks, x.acked, x.effects, x.requests, x.sends, x.unknown, x.resumed, x.interrupted, x.unreached, x.lingered)
}
