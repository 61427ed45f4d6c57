//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/host"
)

// crashPollEvery is how often a condition is looked at, crashPatience how long
// it may take to come true: generous, because a busy machine is no defect.
const (
	crashPollEvery = 3 * time.Millisecond
	crashPatience  = 60 * time.Second
)

// crashSite is one state directory with its daemons, one after the other, and
// what outlives them: the effects of their runs and the journal of what they
// acknowledged.
type crashSite struct {
	t       *testing.T
	dir     string
	effects string
	journal *crashJournal
	// receiver gets webhooks and requests.
	receiver *crashReceiver
	// lingered counts locks that outlived their holder for a moment.
	lingered int
}

// newCrashSite makes a state directory with a short path, so that the socket
// lies in it. The configuration is testdata/crash/config.json.
func newCrashSite(t *testing.T) *crashSite {
	t.Helper()
	dir, err := os.MkdirTemp("", "rota-crash-")
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	s := &crashSite{t: t, dir: dir, effects: filepath.Join(dir, "effects")}
	t.Cleanup(func() {
		s.orphansEnd()
		if t.Failed() {
			t.Logf("the state directory stays for a look: %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	s.receiver = newCrashReceiver(t)
	s.journal = newCrashJournal(t, filepath.Join(dir, "acknowledged"))
	raw, err := os.ReadFile(crashDocument("config.json"))
	if err != nil {
		t.Fatal(err)
	}
	s.configure(string(raw))
	return s
}

// crashDocument is a document of testdata/crash.
func crashDocument(name string) string { return filepath.Join("..", "..", "testdata", "crash", name) }

func (s *crashSite) configure(document string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "config.json"), []byte(document), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *crashSite) db() string     { return databasePath(s.dir) }
func (s *crashSite) socket() string { return socketPath(s.dir, hostEnvironment()) }
func (s *crashSite) log() string    { return filepath.Join(s.dir, "daemon.log") }

// crashLife is one daemon, from its start to its end.
type crashLife struct {
	site      *crashSite
	startedAt time.Time
	ready     string // the file that says that it serves
	cmd       *exec.Cmd
	gone      chan struct{} // closed when the process has ended and is reaped
}

// crashStart says how a daemon is started; the zero value is the ordinary way.
type crashStart struct {
	flags []string // beside the state directory
	env   []string
	dir   string // the state directory under another name
}

// start starts a daemon; the end of the test ends it.
func (s *crashSite) start(binary string, how crashStart) *crashLife {
	s.t.Helper()
	if how.dir == "" {
		how.dir = s.dir
	}
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	l := &crashLife{site: s, gone: make(chan struct{}), ready: filepath.Join(s.dir, "ready")}
	if err := os.Remove(l.ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	args := []string{"serve", "--listen", "", "--state-dir", how.dir, "--ready-file", l.ready, "--log-format", "json"}
	l.cmd = exec.Command(binary, append(args, how.flags...)...)
	l.cmd.Env = append(append(os.Environ(), "CRASH_EFFECTS="+s.effects), how.env...)
	l.cmd.Stderr = log
	l.startedAt = time.Now()
	if err := l.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = l.cmd.Wait() // how it ended is in ProcessState
		close(l.gone)
	}()
	s.t.Cleanup(l.kill)
	return l
}

// kill is kill -9; it returns when the process and its lock are gone.
func (l *crashLife) kill() {
	_ = l.cmd.Process.Kill() // it may have ended already
	<-l.gone
	l.lockGone()
}

// lockGone waits until nobody holds the lock. A command that was between its
// fork and its exec when the daemon died holds it a moment longer than the
// daemon lived; a start in that moment is refused with exit code 75, and
// whoever supervises it tries again.
func (l *crashLife) lockGone() {
	lock, err := os.OpenFile(l.site.db()+".rota-lock", os.O_RDWR, 0)
	if err != nil {
		return // it died before it made one, or the test has cleaned up
	}
	defer lock.Close()
	free := func() bool { return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }
	if free() {
		return
	}
	l.site.lingered++
	if !crashWithin(crashPatience, free) {
		l.site.t.Errorf("the lock outlived its holder by %v", crashPatience)
	}
}

// ended reports whether the process is gone.
func (l *crashLife) ended() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// endedBy reports whether a signal ended a gone process.
func (l *crashLife) endedBy(signal syscall.Signal) bool {
	status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// terminate asks it to stop and gives its exit code and how long it took.
func (l *crashLife) terminate() (exit int, took time.Duration) {
	l.site.t.Helper()
	asked := time.Now()
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		l.site.t.Fatalf("SIGTERM: %v\n%s", err, l.site.logTail())
	}
	select {
	case <-l.gone:
	case <-time.After(crashPatience):
		l.site.t.Fatalf("the daemon did not end within %v of SIGTERM\n%s", crashPatience, l.site.logTail())
	}
	return l.cmd.ProcessState.ExitCode(), time.Since(asked)
}

// serves waits until it serves.
func (l *crashLife) serves() *crashLife {
	l.site.t.Helper()
	crashAwait(l.site.t, "the daemon serves", func() bool {
		if l.ended() {
			l.site.t.Fatalf("the daemon ended (%v) instead of serving\n%s", l.cmd.ProcessState, l.site.logTail())
		}
		_, err := os.Stat(l.ready)
		return err == nil
	})
	return l
}

// dial connects; nil when the daemon has gone instead.
func (l *crashLife) dial() *host.Client {
	tick := time.NewTicker(crashPollEvery)
	defer tick.Stop()
	for {
		if c, err := host.Dial(l.site.socket()); err == nil {
			return c
		}
		select {
		case <-l.gone:
			return nil
		case <-tick.C:
		}
	}
}

// ask calls one method on a connection of its own.
func (l *crashLife) ask(method string, params, result any) {
	l.site.t.Helper()
	c := l.dial()
	if c == nil {
		l.site.t.Fatalf("%s: the daemon is gone\n%s", method, l.site.logTail())
	}
	defer c.Close()
	if err := crashCall(c, method, params, result); err != nil {
		l.site.t.Fatalf("%s: %v\n%s", method, err, l.site.logTail())
	}
}

func crashCall(c *host.Client, method string, params, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), crashPatience)
	defer cancel()
	return c.Call(ctx, method, params, result)
}

// crashListed is a job as cron.list tells it.
type crashListed struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Enabled     bool   `json:"enabled"`
	NextRunAtMs int64  `json:"nextRunAtMs"`
	LastRunAtMs int64  `json:"lastRunAtMs"`
	Schedule    struct {
		Kind    string `json:"kind"`
		EveryMs int64  `json:"everyMs"`
		Expr    string `json:"expr"`
	} `json:"schedule"`
	State struct {
		RunningAtMs int64 `json:"runningAtMs"`
	} `json:"state"`
}

// recurring reports whether the job fires within seconds, again and again.
func (j *crashListed) recurring() bool {
	return j.Schedule.Kind == "every" || j.Schedule.Kind == "cron" && len(j.Schedule.Expr) > 0 && j.Schedule.Expr[0] == '*'
}

// jobs lists the enabled jobs.
func (l *crashLife) jobs() []crashListed {
	l.site.t.Helper()
	var page struct {
		Jobs []crashListed `json:"jobs"`
	}
	l.ask("cron.list", map[string]any{"limit": 200}, &page)
	return page.Jobs
}

// add adds a job and gives its id.
func (l *crashLife) add(params string) string {
	l.site.t.Helper()
	var added struct {
		ID string `json:"id"`
	}
	l.ask("cron.add", json.RawMessage(params), &added)
	return added.ID
}

// crashAwait waits for a condition.
func crashAwait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !crashWithin(crashPatience, holds) {
		t.Fatalf("not within %v: %s", crashPatience, what)
	}
}

// crashWithin reports whether a condition came true in time.
func crashWithin(limit time.Duration, holds func() bool) bool {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(crashPollEvery)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}

// logTail is the end of what the daemons said.
func (s *crashSite) logTail() string {
	raw, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	if len(raw) > 3000 {
		raw = raw[len(raw)-3000:]
	}
	return string(raw)
}

// crashEffect is one line that a command wrote.
type crashEffect struct {
	runID string
	slot  string // as the command was told; "-" for a manual run
	pid   int
}

// readEffects reads the effects there are now.
func (s *crashSite) readEffects() []crashEffect {
	s.t.Helper()
	raw, err := os.ReadFile(s.effects)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	var all []crashEffect
	for line := range bytes.Lines(raw) {
		words := bytes.Fields(line)
		if len(words) != 3 {
			s.t.Fatalf("an effect is not RUN SLOT PID: %q", line)
		}
		pid, err := strconv.Atoi(string(words[2]))
		if err != nil {
			s.t.Fatalf("an effect is not RUN SLOT PID: %q", line)
		}
		all = append(all, crashEffect{string(words[0]), string(words[1]), pid})
	}
	return all
}

// orphansEnd waits until the processes that killed daemons left behind have
// ended by themselves.
func (s *crashSite) orphansEnd() {
	effects := s.readEffects()
	for _, e := range effects[max(0, len(effects)-200):] {
		if !crashWithin(crashPatience, func() bool { return !s.lives(e.pid) }) {
			s.t.Errorf("process %d of run %s does not end", e.pid, e.runID)
		}
	}
}

// lives reports whether a process group is one of this site's commands: each
// leads a group of its own. Where the system shows it, the environment tells a
// command from a stranger that was given its number.
func (s *crashSite) lives(pid int) bool {
	if syscall.Kill(-pid, 0) != nil {
		return false
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return runtime.GOOS != "linux"
	}
	return bytes.Contains(environ, []byte("CRASH_EFFECTS="+s.effects))
}
