package worker

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
)

// machine is a computer with a daemon on it: the file, the clocks and the
// launch log, which outlive the daemon, and the daemon's life: starts, kills
// and stops. Scripts and the simulation drive it turn by turn in the test's own
// goroutine; desk has the file, the clocks and the checks.
type machine struct {
	*desk
	arms  bool
	boot  int    // which boot of the machine
	logID string // which launch log
	log   []Logged
	// take gets every order that the launcher takes, once and in order.
	take func(Order)
	// away says that the launcher takes nothing: orders stay in its lane, and a
	// kill loses them.
	away bool
	// look is called after every turn, before its orders are taken.
	look     func()
	checking bool  // compare memory with the file after every transaction
	checked  int64 // transactions up to the last comparison
}

// newMachine is a machine that was never started.
func newMachine(t testing.TB, nowMs int64) *machine {
	m := &machine{
		desk: &desk{t: t, path: filepath.Join(quickDir(t), "rota.sqlite"), nowMs: nowMs, cfg: DefaultConfig()},
		boot: 1, logID: "log-1", checking: true,
	}
	m.take, m.look = func(Order) {}, func() {}
	t.Cleanup(func() {
		if m.w != nil {
			m.kill()
		}
	})
	return m
}

// quickDir is a directory in memory where there is one: nothing here is about
// power cuts, and every start and every close waits for the disk several times.
func quickDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "rota-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start opens the file and recovers. What a killed start leaves is left.
func (m *machine) start() error {
	m.t.Helper()
	s, err := store.Open(store.Options{Path: m.path, Durability: store.Normal, NowMs: m.nowMs, Fault: func(point string) error {
		if m.fault == nil || m.looking {
			return nil
		}
		return m.fault(point)
	}})
	if err != nil {
		return err
	}
	m.checked = 0
	m.w = New(Options{
		Store: s, Config: m.cfg, PID: 7, BootID: "boot-" + string(rune('0'+m.boot)), LogID: m.logID, Logged: m.log,
		Log: slog.New(slog.DiscardHandler), // failures are part of the play
		Clock: Clock{
			WallMs: func() int64 { return m.nowMs },
			MonoMs: func() int64 { return m.monoMs },
			Timer: func(time.Duration) (<-chan time.Time, func() bool) { // virtual: it fires at once
				fired := make(chan time.Time, 1)
				fired <- time.Time{}
				return fired, func() bool { return true }
			},
		},
	})
	m.w.careful = m.boot%2 == 0 // both ways to apply messages
	if m.arms {
		m.w.crowd = 1 // every slot is armed ahead, where there is a place
	}
	return m.w.start()
}

// kill drops the daemon: what was handed out and not taken is lost, and so is
// every answer. The file is closed only because one process cannot hold it twice.
func (m *machine) kill() {
	m.t.Helper()
	was := m.fault
	m.fault = nil
	err := m.w.store.Close()
	m.w, m.fault = nil, was
	if err != nil {
		m.t.Error(err)
	}
}

// turn runs one turn and hands its orders to the launcher; more says that the
// worker would go on at once.
func (m *machine) turn() (more bool) {
	m.t.Helper()
	more, err := m.w.turn()
	if err != nil {
		m.t.Fatal(err)
	}
	// After a failed turn a new configuration may be installed and not in the jobs.
	if n := m.w.turns.Load(); m.checking && n != m.checked && !m.w.stale {
		m.checked = n
		m.checkMemory()
	}
	m.look()
	m.handOut()
	if m.w.trouble.untilMs > m.monoMs {
		m.monoMs = m.w.trouble.untilMs // a failed turn is tried again after its hold
		return true
	}
	return more || m.w.outcomes.len()+m.w.commands.len() > 0
}

// handOut lets the launcher take what is in its lane.
func (m *machine) handOut() {
	if m.away {
		return
	}
	for _, o := range m.w.orders.take(0) {
		m.take(o)
	}
}

// settle turns until the worker comes to rest, with the upkeep of its loop.
func (m *machine) settle() {
	m.t.Helper()
	for range 10_000 {
		if more := m.turn(); !more {
			m.w.upkeep()
			return
		}
		m.w.upkeep()
	}
	m.t.Fatal("the worker does not come to rest")
}

// advance moves both clocks and turns at every deadline on the way, as the
// loop would.
func (m *machine) advance(by time.Duration) {
	m.t.Helper()
	for until := m.nowMs + by.Milliseconds(); m.nowMs < until; {
		nextMs := until
		if deadlineMs, ok := m.w.deadlineMs(instant{m.nowMs, m.monoMs}); ok {
			nextMs = min(until, max(deadlineMs, m.nowMs+1))
		}
		m.monoMs += nextMs - m.nowMs
		m.nowMs = nextMs
		m.settle()
	}
}

// ask gives one command to the worker and waits for its answer.
func (m *machine) ask(command any) (any, error) {
	m.t.Helper()
	c := &call{command: command, reply: make(chan answer, 1)}
	m.w.commands.put(c)
	m.settle()
	a := <-c.reply
	return a.value, a.err
}

// announce notes a launch in the launch log, as is done before any effect.
func (m *machine) announce(receiptID string) {
	m.log = append(m.log, Logged{ReceiptID: receiptID, BootID: "boot-" + string(rune('0'+m.boot))})
}

// forget trims a settled run from the launch log.
func (m *machine) forget(receiptID string) {
	kept := m.log[:0:0]
	for _, l := range m.log {
		if l.ReceiptID != receiptID {
			kept = append(kept, l)
		}
	}
	m.log = kept
}
