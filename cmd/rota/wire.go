package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	oklog "github.com/oklog/run"

	"github.com/rota-scheduler/rota/host"
	"github.com/rota-scheduler/rota/launcher"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker"
)

// daemon is everything rota serve decided, ready to be wired.
type daemon struct {
	log        *slog.Logger
	stateDir   string
	temporary  bool // the state directory was made for this start alone
	dbPath     string
	socketPath string
	gateway    host.GatewayOptions // the token is read when the file is locked
	configPath string
	config     host.Config
	readConfig func() (host.Config, error)
	jobs       host.JobsFile
	adopt      bool
	durability store.Durability
	grace      time.Duration
	readyFile  string
}

// run wires the four parts and serves until ctx ends. The order of the Add
// calls is the order of start and stop; an embedding program does the same.
func (d *daemon) run(ctx context.Context) (err error) {
	s, err := store.Open(store.Options{
		Path: d.dbPath, Durability: d.durability, Holder: "socket " + d.socketPath, Version: programVersion(),
		MachineID: machineID(), Adopt: d.adopt, NowMs: time.Now().UnixMilli(),
	})
	if err != nil {
		return openFailure(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, note := range s.Notes() {
		d.log.Warn(note)
	}
	bootID := launcher.BootID()
	logID, err := launcher.LogID(d.launchLog())
	if err != nil {
		return err
	}
	logged, err := launcher.ReadLog(d.launchLog(), bootID)
	if err != nil {
		return err
	}
	for _, l := range logged {
		if l.Alive {
			d.log.Warn("a command that a killed daemon started still runs, and may run beside its job's next run",
				"pid", l.Process.PID, "hint", fmt.Sprintf("kill -- -%d ends it", l.Process.PID))
		}
	}
	w := worker.New(worker.Options{
		Store: s, Config: d.config.Worker, BootID: bootID, Logged: logged, LogID: logID, PID: os.Getpid(),
		TwoSteps: twoSteps(), Log: d.log,
	})
	echo, err := d.echo()
	if err != nil {
		return err
	}
	l, err := launcher.New(launcher.Options{
		Port: w.Port(), LogPath: d.launchLog(), BootID: bootID, Environ: os.Environ(), Version: programVersion(), Echo: echo,
		CleanupGraceMs: d.config.Worker.CleanupGraceMs, ShutdownGraceMs: d.grace.Milliseconds(), Log: d.log,
	})
	if err != nil {
		return err
	}
	if err := d.readToken(); err != nil {
		return err
	}
	h, err := host.New(host.Options{
		Worker: w, SocketPath: d.socketPath, DBPath: s.Path(), InstanceID: uuid.NewString(), Version: programVersion(),
		Durability: d.durability.String(), NewID: uuid.NewString, LiveOutput: l.Output,
		Gateway: d.gateway, RateLimit: d.config.RateLimit, Log: d.log,
	})
	if err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	reload := host.NewReloader(host.ReloadOptions{
		Path: d.configPath, Read: d.readConfig, Current: d.config, Now: hangup, State: h.SetConfigState, Log: d.log,
		Install: func(c host.Config) {
			h.SetRateLimit(c.RateLimit)
			w.Configure(c.Worker)
		},
	})

	// Start: the worker recovers first, and the others wait for it by their own
	// nature: the launcher for orders, the host's callers for answers. Stop: all
	// are asked at once; the host ends its connections, the launcher its runs,
	// and the worker stays until the launcher has reported the last of them.
	var g oklog.Group
	g.Add(actor(ctx, w.Run))
	g.Add(actor(ctx, l.Run))
	g.Add(actor(ctx, h.Run))
	g.Add(actor(ctx, reload.Run))
	g.Add(actor(ctx, func(ctx context.Context) error { return d.announce(ctx, w, s, h.URL()) }))
	g.Add(waitFor(ctx))
	err = g.Run()
	if errors.Is(err, errStopAsked) {
		err = nil
	}
	return err
}

// actor makes one part of the group from its Run.
func actor(parent context.Context, run func(context.Context) error) (execute func() error, interrupt func(error)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	return func() error { return run(ctx) }, func(error) { cancel() }
}

// errStopAsked ends the group when somebody asked for it.
var errStopAsked = errors.New("stop asked for")

// waitFor is the part that ends the group when the program is asked to stop.
func waitFor(parent context.Context) (execute func() error, interrupt func(error)) {
	ctx, cancel := context.WithCancel(parent)
	return func() error { <-ctx.Done(); return errStopAsked }, func(error) { cancel() }
}

// echo makes the echo listener if a job of the jobs file names it.
func (d *daemon) echo() (*launcher.Echo, error) {
	if !d.jobs.NeedsEcho {
		return nil, nil
	}
	return launcher.NewEcho()
}

// readToken reads or makes what clients of the gateway must present.
func (d *daemon) readToken() error {
	if d.gateway.Listen == "" {
		return nil
	}
	token, notes, err := host.EnsureToken(tokenPath(d.stateDir))
	for _, note := range notes {
		d.log.Warn(note)
	}
	d.gateway.Token = token
	return err
}

func (d *daemon) launchLog() string { return filepath.Join(d.stateDir, "launch.log") }

// announce says that rota serves, once it does, and then prints one line for
// each run that ends.
func (d *daemon) announce(ctx context.Context, w *worker.Worker, s *store.Store, url string) error {
	feed := w.Subscribe(1024)
	defer feed.Close()
	select {
	case <-w.Ready():
	case <-ctx.Done():
		return nil
	}
	if err := d.applyJobs(ctx, w); err != nil {
		return err
	}
	if why := w.Fenced(); why != "" {
		d.log.Warn("this file is shown, not written, and nothing fires", "why", why, "hint", "rota serve --adopt takes it over")
	}
	line := readyLine(url, d.socketPath, s.Path(), w.Snapshot().Len(), d.durability)
	fmt.Fprintln(os.Stderr, line)
	if d.readyFile != "" {
		if err := writeReadyFile(d.readyFile, line); err != nil {
			return err
		}
	}
	d.tellWhereToLook()
	debug.FreeOSMemory() // reading the jobs left as much behind as they take
	finished := newLines(os.Stdout)
	defer finished.close()
	stop := ctx.Done()
	for {
		select {
		case e, ok := <-feed.C:
			if !ok { // the worker has ended: nothing more will
				return nil
			}
			if e.Kind == worker.EventFinished {
				_, _ = finished.Write([]byte(finishedLine(e)))
			}
		case <-stop:
			stop = nil // runs that end within the grace are told too
			if _, active := w.Snapshot().Counts(); active > 0 {
				fmt.Fprintf(os.Stderr, "stopping: %d active, waiting up to %v; interrupt again to leave at once\n", active, d.grace)
			}
		}
	}
}

// applyJobs applies the jobs file and says what that did.
func (d *daemon) applyJobs(ctx context.Context, w *worker.Worker) error {
	if len(d.jobs.Jobs) == 0 {
		return nil
	}
	ids := make([]string, len(d.jobs.Jobs))
	for i := range ids {
		ids[i] = uuid.NewString()
	}
	applied, err := w.Apply(ctx, worker.ApplyJobs{Source: d.jobs.File, Jobs: d.jobs.Jobs, IDs: ids})
	if err != nil {
		return locateJob(d.jobs, err)
	}
	d.log.Info("jobs file applied", "file", d.jobs.File, "created", applied.Created, "updated", applied.Updated, "unchanged", applied.Unchanged)
	for _, note := range applied.Notes {
		d.log.Debug(note)
	}
	if len(applied.Left) > 0 {
		d.log.Info("jobs that are no longer in the file stay", "jobs", strings.Join(applied.Left, ", "), "hint", "rota cron rm removes one")
	}
	return nil
}

// tellWhereToLook helps whoever tries a jobs file out.
func (d *daemon) tellWhereToLook() {
	if d.jobs.File == "" {
		return
	}
	if d.temporary {
		fmt.Fprintf(os.Stderr, "\nThe ledger is temporary, and new at each start: %s\nFor one that stays: rota serve --state-dir DIR --jobs %s\n", d.stateDir, quoteSpaces(d.jobs.File))
	}
	rota := "rota"
	if strings.Contains(os.Args[0], "go-build") {
		rota = "go run ./cmd/rota"
	}
	fmt.Fprintf(os.Stderr, `
Look at it from a second terminal:
  export ROTA_STATE_DIR=%s
  %[2]s cron list --all    # the jobs, and when they run next
  %[2]s cron runs          # what ran
  %[2]s events --follow    # what happens, as it happens
Interrupt (Ctrl-C) stops it.

`, quoteSpaces(d.stateDir), rota)
}
