package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/host"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// backupTimeoutMs is what the copying alone may take; the check that follows is
// this command's own.
const backupTimeoutMs = 3_600_000

// backupAnswer is what rota backup --json prints.
type backupAnswer struct {
	Path   string `json:"path"`
	Pages  int    `json:"pages"`
	Bytes  int64  `json:"bytes"`
	TookMs int64  `json:"tookMs"`
}

func newBackupCommand(a *app) *cobra.Command {
	var db string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the database while it is served",
		Long: `Copy the database to FILE, complete and checked, while the daemon goes on. What
was acknowledged before is in it. (A plain cp of a database in use lacks its
newest rows, or is damaged.) FILE must not exist; nothing of it is left if
anything fails.

The daemon copies a little between its turns; without one the file is copied by
this command. A backup is shown and never served by itself:

  rota serve --db FILE             looks at it
  rota serve --db FILE --adopt     takes it over, once the original is given up`,
		Args: argsBetween(1, 1, "one file to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			began := time.Now()
			made, err := a.backup(cmd.Context(), args[0], db)
			if err != nil {
				return err
			}
			took := time.Since(began)
			if asJSON {
				a.printJSON(backupAnswer{made.Path, made.Pages, made.Bytes, took.Milliseconds()})
				return nil
			}
			a.printText(fmt.Sprintf("Copied %d pages, %.1f MiB, in %.1f s to %s\n", made.Pages, float64(made.Bytes)/(1<<20), took.Seconds(), escapeText(made.Path)))
			return nil
		},
	}
	cmd.Flags().StringVar(&db, "db", "", "copy this database, which no daemon may hold")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// backup has the daemon copy, or copies itself where none runs. The rest is done
// here in both cases: the check of a large copy would hold the daemon up.
func (a *app) backup(ctx context.Context, file, db string) (*store.Copy, error) {
	if a.url() != "" {
		f := usage("a backup is a file on the daemon's machine and is asked for there, not over %s", a.url())
		f.Hint = "run it there without --url and ROTA_URL"
		return nil, f
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	if file == "" || os.IsPathSeparator(file[len(file)-1]) {
		path += string(filepath.Separator) // Abs drops it, and with it that no file is named
	}
	var made *store.Copy
	if db == "" {
		made, err = a.askBackup(ctx, path)
		var none *host.NoServerError
		if errors.As(err, &none) {
			var dir string
			if dir, _, err = stateDir(a.stateDirFlag, hostEnvironment()); err != nil {
				return nil, err
			}
			db = databasePath(dir)
		}
	}
	if db != "" {
		made, err = copyDatabase(ctx, db, path)
	}
	if err == nil {
		err = made.Publish(ctx, time.Now().UnixMilli())
	}
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return made, openFailure(err)
}

// askBackup has the daemon copy and leave the rest.
func (a *app) askBackup(ctx context.Context, path string) (*store.Copy, error) {
	if a.timeoutMs == 0 {
		a.timeoutMs = backupTimeoutMs
	}
	var answer struct {
		Path  string
		Pages int
		Bytes int64
	}
	err := a.call(ctx, "rota.backup", map[string]any{"path": path, "check": false}, &answer)
	var refusal *host.WireError
	if errors.As(err, &refusal) {
		f := wireFailure(refusal)
		if f.Code == string(job.CodeStorage) {
			f.Exit = exitIO
		}
		return nil, f
	}
	if err != nil {
		return nil, err
	}
	made := store.NamelessCopy(answer.Path)
	made.Pages, made.Bytes = answer.Pages, answer.Bytes
	return made, nil
}

// copyDatabase copies a file that nobody serves, and leaves it as it is.
func copyDatabase(ctx context.Context, db, path string) (*store.Copy, error) {
	if _, err := os.Stat(db); errors.Is(err, fs.ErrNotExist) {
		return nil, &failure{Exit: exitNotFound, Code: "not_found", Message: "there is no database " + db, Err: err,
			Hint: "name its directory with --state-dir DIR, or the file with --db FILE"}
	}
	s, err := store.Open(store.Options{Path: db, ReadOnly: true, Holder: "rota backup", Version: programVersion(),
		MachineID: machineID(), NowMs: time.Now().UnixMilli()})
	if err != nil {
		return nil, err
	}
	b, err := s.Idle().Backup(path)
	var made *store.Copy
	for err == nil && made == nil {
		if err = ctx.Err(); err != nil {
			b.Abandon(err)
			break
		}
		made, err = b.Step()
	}
	if closed := s.Close(); closed != nil && made != nil {
		made.Discard()
		return nil, errors.Join(err, closed)
	}
	return made, err
}
