package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

// goqite: a table of messages with a visibility timeout, and a runner that
// receives one at a time and deletes it when its function has returned.

// prefillGoqite makes the table alone: goqite keeps nothing of a finished job.
// Its schema is a file of its module, which each user applies.
func prefillGoqite(ctx context.Context, db *sql.DB, _ int) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "maragu.dev/goqite").Output()
	if err != nil {
		return fmt.Errorf("finding goqite's schema: %w", err)
	}
	schema, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "schema_sqlite.sql"))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, string(schema))
	return err
}

func openGoqite(ctx context.Context, db *sql.DB, ends *ends, _ int) (*queue, error) {
	q := goqite.New(goqite.NewOpts{DB: db, Name: "runs"})
	// A runner at its limit sleeps for a poll interval. One above what can be in
	// flight never does; it also covers jobs that wait to be deleted.
	runner := jobs.NewRunner(jobs.NewRunnerOpts{Queue: q, Limit: 2048, PollInterval: 10 * time.Millisecond, Log: goqiteLog{}})
	runner.Register("run", func(_ context.Context, body []byte) error {
		run, err := strconv.Atoi(string(body))
		if err == nil {
			ends.end(run)
		}
		return err
	})
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		runner.Start(working)
		close(stopped)
	}()
	return &queue{
		insert: func(ctx context.Context, first, n int) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback() //after a commit there is nothing to roll back
			for i := range n {
				if _, err := jobs.CreateTx(ctx, tx, q, "run", goqite.Message{Body: strconv.AppendInt(nil, int64(first+i), 10)}); err != nil {
					return err
				}
			}
			return tx.Commit()
		},
		unfinished: func(ctx context.Context) (int, error) { return count(ctx, db, "SELECT count(*) FROM goqite") },
		stop: func(context.Context) error {
			cancel()
			<-stopped
			return nil
		},
	}, nil
}

// goqiteLog picks the errors from what goqite logs, all of which is at level
// info.
type goqiteLog struct{}

func (goqiteLog) Info(message string, args ...any) {
	if strings.HasPrefix(message, "Error") {
		complain("goqite: %s %v", message, args)
	}
}
