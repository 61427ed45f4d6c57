package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/host"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker"
)

// serveFlags are the flags of rota serve.
type serveFlags struct {
	db     string
	listen string
	// listenGiven: the address was chosen, and is not only the default.
	listenGiven bool
	remote      bool
	hosts       []string
	config      string
	jobs        string
	adopt       bool
	durability  string
	grace       time.Duration
	logFormat   string
	readyFile   string
}

// defaultListen is where clients of the protocol look for rota.
const defaultListen = "127.0.0.1:7682"

func newServeCommand(a *app) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Run the daemon: keep the jobs, fire them, keep the ledger.

When it serves it prints one line on stderr, "ready url=… socket=… db=… jobs=N
durability=…". Each finished run is one line on stdout: TIME JOB STATUS DURATION.

The socket in the state directory is for this user alone. The url speaks the same
methods over a WebSocket, to whoever has the token: the file "token" in the state
directory, made at the first start.

The configuration file is read again when it changes, and on SIGHUP: a new
document is installed whole, a broken one is told in the log and leaves the last
in force. Jobs and runs are not touched; --jobs is applied at the start only.

SIGTERM or an interrupt stops it: no more commands, active runs may end within
the grace, the rest is recorded as interrupted. A second one exits at once.`,
		Args: argsBetween(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.listenGiven = cmd.Flags().Changed("listen")
			return a.serve(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.db, "db", "", "database file (default rota.sqlite in the state directory)")
	flags.StringVar(&f.listen, "listen", defaultListen, "address of the WebSocket; port 0 picks one, '' serves the socket alone")
	flags.BoolVar(&f.remote, "allow-remote", false, "permit a --listen address that other machines can reach; the protocol is not encrypted")
	flags.StringArrayVar(&f.hosts, "allow-host", nil, "a further name under which remote clients reach this machine (repeatable)")
	flags.StringVar(&f.config, "config", "", "configuration file (default config.json in the state directory)")
	flags.StringVar(&f.jobs, "jobs", "", "jobs file to apply at the start, all of it or nothing; where nothing names a state directory, the ledger is a temporary one")
	flags.BoolVar(&f.adopt, "adopt", false, "take over a file that was copied from another machine or rolled back")
	flags.StringVar(&f.durability, "durability", "", "full (survives a power cut) or normal (survives a kill); default full")
	flags.DurationVar(&f.grace, "grace", 10*time.Second, "how long active runs may go on at a stop")
	flags.StringVar(&f.logFormat, "log-format", "auto", "auto, text or json")
	flags.StringVar(&f.readyFile, "ready-file", "", "file to write the ready line to")
	return cmd
}

// serve decides the paths and settings, and then wires the parts.
func (a *app) serve(ctx context.Context, f *serveFlags) error {
	if a.urlFlag != "" || a.tokenFlag != "" {
		f := usage("serve is not a client: it takes no --url and no --token")
		f.Hint = "--listen HOST:PORT says where to serve; the token is in the file `token` of the state directory"
		return f
	}
	logLines := newLines(os.Stderr)
	defer logLines.close()
	log, err := newLogger(os.Stderr, logLines, f.logFormat)
	if err != nil {
		return err
	}
	dir, temporary, err := a.serveDir(f)
	if err != nil {
		return err
	}
	if temporary && !f.listenGiven {
		f.listen = "127.0.0.1:0" // a trial leaves the usual address to the daemon that keeps it
	}
	env := hostEnvironment()
	if f.db == "" {
		f.db = databasePath(dir)
	}
	if f.config == "" {
		f.config = filepath.Join(dir, "config.json")
	} else if _, err := os.Stat(f.config); err != nil {
		return &failure{Exit: exitConfig, Code: "config", Message: err.Error(), Hint: "name a file that exists with --config FILE", Err: err}
	}
	var jobs host.JobsFile
	if f.jobs != "" {
		if jobs, err = host.ReadJobsFile(f.jobs); err != nil {
			return err
		}
	}
	readConfig := func() (host.Config, error) { return serveConfig(f.config, jobs) }
	cfg, err := readConfig()
	if err != nil {
		return err
	}
	if len(cfg.Carried) > 0 {
		log.Warn("these configuration keys have no effect in this build", "keys", strings.Join(cfg.Carried, ", "))
	}
	for _, warning := range cfg.Warnings {
		log.Warn(warning)
	}
	durability, err := chooseDurability(f.durability, cfg.Durability)
	if err != nil {
		return err
	}
	d := daemon{
		log: log, stateDir: dir, temporary: temporary, dbPath: f.db, socketPath: socketPath(dir, env),
		gateway:    host.GatewayOptions{Listen: f.listen, AllowRemote: f.remote, AllowedHosts: f.hosts},
		configPath: f.config, config: cfg, readConfig: readConfig,
		jobs: jobs, adopt: f.adopt, durability: durability, grace: f.grace, readyFile: f.readyFile,
	}
	return d.run(ctx)
}

// serveDir is the state directory, made if it is not there. It is a new
// temporary one only where a jobs file is tried out and nothing names another.
func (a *app) serveDir(f *serveFlags) (dir string, temporary bool, err error) {
	dir, named, err := stateDir(a.stateDirFlag, hostEnvironment())
	if err != nil {
		return "", false, err
	}
	if f.jobs != "" && !named && f.db == "" {
		dir, err = os.MkdirTemp("", "rota-")
		return dir, true, err
	}
	return dir, false, makeStateDir(dir)
}

// serveConfig reads the configuration file, and over it the jobs file's own
// "config" when it has one.
func serveConfig(path string, jobs host.JobsFile) (host.Config, error) {
	base := worker.DefaultConfig()
	zone, err := hostZone()
	if err != nil {
		return host.Config{}, err
	}
	base.Zone = zone.Name()
	cfg, err := host.ReadConfig(path, base)
	if err != nil {
		return cfg, err
	}
	return jobs.ReadConfig(cfg)
}

func chooseDurability(flag, configured string) (store.Durability, error) {
	word := flag
	if word == "" {
		word = configured
	}
	switch word {
	case "", "full":
		return store.Full, nil
	case "normal":
		return store.Normal, nil
	}
	f := usage("--durability is full or normal, not %q", word)
	f.Hint = "full survives a power cut, normal only a kill"
	return store.Full, f
}

// newLogger writes for people on a terminal and JSON for everything else. It
// writes through lines, so that an unread pipe never holds whoever logs.
func newLogger(to *os.File, out io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "auto":
		if isTerminal(to) {
			return slog.New(tint.NewTextHandler(out, &tint.Options{TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""})), nil
		}
		return slog.New(slog.NewJSONHandler(out, nil)), nil
	case "text":
		return slog.New(tint.NewTextHandler(out, &tint.Options{TimeFormat: time.TimeOnly, NoColor: true})), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, nil)), nil
	}
	return nil, usage("--log-format is auto, text or json, not %q", format)
}

// openFailure gives a refusal to open the file its exit code.
func openFailure(err error) error {
	var e *store.Error
	if !errors.As(err, &e) {
		return err
	}
	return &failure{Exit: e.ExitCode(), Code: string(e.Code), Message: e.Error(), Hint: e.Hint, Err: err}
}

// readyLine is what tells scripts and people that rota serves. Without a
// gateway there is no url in it.
func readyLine(url, socket, db string, jobs int, durability store.Durability) string {
	if url != "" {
		url = "url=" + url + " "
	}
	return fmt.Sprintf("ready %ssocket=%s db=%s jobs=%d durability=%s", url, quoteSpaces(socket), quoteSpaces(db), jobs, durability)
}

// quoteSpaces quotes a value that would not survive being split at spaces.
func quoteSpaces(s string) string {
	if strings.ContainsAny(s, " \t\n\"") {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// writeReadyFile writes the line under a temporary name and renames it, so
// that a watcher never reads half of it.
func writeReadyFile(path, line string) error {
	temp := path + ".tmp"
	if err := os.WriteFile(temp, []byte(line+"\n"), 0o600); err != nil {
		return &failure{Exit: exitIO, Code: "io", Message: "the ready file cannot be written: " + err.Error(), Hint: "check --ready-file", Err: err}
	}
	return os.Rename(temp, path)
}
