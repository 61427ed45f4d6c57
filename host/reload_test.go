package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

// reloading is a Reloader of a file, driven by the test instead of by time.
type reloading struct {
	*Reloader
	t         *testing.T
	path      string
	now       time.Time
	installed []Config
	told      ConfigState
}

func newReloading(t *testing.T, document string, install func(Config)) *reloading {
	t.Helper()
	f := &reloading{t: t, path: filepath.Join(t.TempDir(), "config.json"), now: time.Now()}
	f.write(document)
	read := func() (Config, error) { return ReadConfig(f.path, worker.DefaultConfig()) }
	current, err := read()
	if err != nil {
		t.Fatal(err)
	}
	f.Reloader = NewReloader(ReloadOptions{Path: f.path, Read: read, Current: current, Log: quiet(),
		Install: func(c Config) {
			f.installed = append(f.installed, c)
			if install != nil {
				install(c)
			}
		},
		State: func(s ConfigState) { f.told = s }})
	return f
}

// write replaces the file; each version has its own time.
func (f *reloading) write(document string) {
	f.t.Helper()
	f.now = f.now.Add(10 * time.Second)
	if err := os.WriteFile(f.path, []byte(document), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chtimes(f.path, f.now, f.now); err != nil {
		f.t.Fatal(err)
	}
}

func TestReload(t *testing.T) {
	f := newReloading(t, `{"cron":{"maxConcurrentRuns":3}}`, nil)
	f.check(f.now)
	if len(f.installed) != 0 || f.told.Path != f.path || f.told.Version != 1 || f.told.Error != "" {
		t.Errorf("nothing changed: installed %d, told %+v", len(f.installed), f.told)
	}
	for _, step := range []struct {
		name, document string // "" = the file goes
		concurrent     int    // of what is in force afterwards
		version        int64
		error          string // in what is told
		atNextStart    []string
	}{
		{"a change", `{"cron":{"maxConcurrentRuns":5}}`, 5, 2, "", nil},
		{"the same in other words", "{ \"cron\" : {\n\"maxConcurrentRuns\":5} }", 5, 2, "", nil},
		{"broken", "{\"cron\":{\n\"maxConcurrentRuns\":6,}}", 5, 2, ":2: ", nil},
		{"an unknown key", "{\"cron\":{\n\n\"maxRuns\":6}}", 5, 2, ":3: unknown key", nil},
		{"mended without a change", `{"cron":{"maxConcurrentRuns":5}}`, 5, 2, "", nil},
		{"gone", "", 5, 2, "gone", nil},
		{"back and new", `{"cron":{"maxConcurrentRuns":7}}`, 7, 3, "", nil},
		{"what waits for a start", `{"cron":{"maxConcurrentRuns":7,"durability":"normal","cleanupGraceSeconds":5}}`, 7, 4, "", []string{"cron.durability", "cron.cleanupGraceSeconds"}},
		{"back to the start's", `{"cron":{"maxConcurrentRuns":7}}`, 7, 5, "", nil},
	} {
		if step.document == "" {
			if err := os.Remove(f.path); err != nil {
				t.Fatal(err)
			}
		} else {
			f.write(step.document)
		}
		for range 3 { // one look is enough, and more do no harm
			f.check(f.now)
		}
		if f.current.Worker.MaxConcurrent != step.concurrent || f.told.Version != step.version {
			t.Errorf("%s: %d at once, version %d", step.name, f.current.Worker.MaxConcurrent, f.told.Version)
		}
		if step.error == "" && f.told.Error != "" || !strings.Contains(f.told.Error, step.error) {
			t.Errorf("%s: told %q, want %q", step.name, f.told.Error, step.error)
		}
		if !slices.Equal(f.told.AtNextStart, step.atNextStart) {
			t.Errorf("%s: waits %v, want %v", step.name, f.told.AtNextStart, step.atNextStart)
		}
	}
	for i, c := range f.installed {
		if c.Worker.Version != int64(i+2) {
			t.Errorf("installation %d has version %d", i+1, c.Worker.Version)
		}
	}
}

// What a new document allows is said in the log, as at a start.
func TestReloadSaysWhatADocumentAllows(t *testing.T) {
	f := newReloading(t, `{}`, nil)
	var log strings.Builder
	f.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	f.write(`{"cron":{"webhookToken":"hunter2","webhookSsrfPolicy":{"dangerouslyAllowPrivateNetwork":true}}}`)
	for range 2 {
		f.check(f.now)
	}
	for _, said := range []string{"cron.webhookToken goes to every webhook", "dangerouslyAllowPrivateNetwork lets every job"} {
		if n := strings.Count(log.String(), said); n != 1 {
			t.Errorf("%q was said %d times in\n%s", said, n, log.String())
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the token is in the log:\n%s", log.String())
	}
}

// A file that was written just now may be written again without a trace in its
// time: it is read once more.
func TestReloadReadsAFreshFileAgain(t *testing.T) {
	f := newReloading(t, `{"cron":{"maxConcurrentRuns":3}}`, nil)
	real := time.Now()
	set := func(document string) {
		if err := os.WriteFile(f.path, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(f.path, real, real); err != nil {
			t.Fatal(err)
		}
	}
	set(`{"cron":{"maxConcurrentRuns":4}}`)
	f.check(real)
	set(`{"cron":{"maxConcurrentRuns":5}}`) // as long, and at the same time
	f.check(real)
	if f.current.Worker.MaxConcurrent != 5 {
		t.Errorf("%d at once is in force", f.current.Worker.MaxConcurrent)
	}
}

// A reload touches no job, whatever the document holds.
func TestCase109ReloadKeepsEveryJob(t *testing.T) {
	r := newRig(t, nil)
	const jobs = 20
	for i := range jobs {
		r.addJob(fmt.Sprintf("job %d", i))
	}
	f := newReloading(t, `{}`, func(c Config) { r.opts.Worker.Configure(c.Worker) })
	before := fmt.Sprint(r.ask("cron.list", `{}`)["jobs"])
	for _, document := range []string{
		`{"cron":{"maxConcurrentRuns":2}}`,
		`{"cron":{"maxConcurrentRuns":`,
		`{"cron":{"timezone":"Mars/Base"}}`,
		`{"cron":{"dst":"skip","retention":{"historyDays":3}}}`,
		`{}`,
	} {
		f.write(document)
		f.check(f.now)
		if f.told.Error != "" && !strings.Contains(f.told.Error, "config.json:1: ") {
			t.Errorf("%s: the line is not told: %s", document, f.told.Error)
		}
		if n := r.ask("cron.status", `{}`)["jobs"]; n != float64(jobs) {
			t.Errorf("%s: %v jobs", document, n)
		}
		if after := fmt.Sprint(r.ask("cron.list", `{}`)["jobs"]); after != before {
			t.Errorf("%s changed a job", document)
		}
	}
	if len(f.installed) != 3 {
		t.Errorf("%d documents were installed, want 3", len(f.installed))
	}
	r.ask("cron.runs", `{}`) // a turn after the last installation
	if got := r.opts.Worker.Snapshot().Config.Version; got != int64(len(f.installed))+1 {
		t.Errorf("the worker has version %d", got)
	}
}

// A signal is a look at once, and the end of the context the end of the watch.
func TestReloadOnASignal(t *testing.T) {
	installed := make(chan Config, 1)
	f := newReloading(t, `{}`, func(c Config) { installed <- c })
	hangup := make(chan os.Signal)
	f.o.Now = hangup
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	f.write(`{"cron":{"maxConcurrentRuns":9}}`)
	hangup <- os.Interrupt
	select {
	case c := <-installed:
		if c.Worker.MaxConcurrent != 9 {
			t.Errorf("installed %d", c.Worker.MaxConcurrent)
		}
	case <-time.After(deadline):
		t.Fatal("nothing was installed")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
