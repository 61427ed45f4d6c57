package main

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

// River: a table of jobs with their states, an in-process client with workers.
// Completions are collected and recorded in batches.

type riverSettings struct {
	workers  int
	cooldown time.Duration // zero is River's default, 100 ms
	poll     time.Duration // zero is River's default, 1 s
}

var (
	riverDefaults = riverSettings{workers: 100}
	riverFast     = riverSettings{workers: 100, cooldown: 10 * time.Millisecond, poll: 10 * time.Millisecond}
	// riverWide goes with many open runs: its completer writes batches of up to
	// 5,000, and waits up to 50 ms for one.
	riverWide = riverSettings{workers: 1000, cooldown: 10 * time.Millisecond, poll: 10 * time.Millisecond}
)

type riverRun struct {
	Run int `json:"run"`
}

func (riverRun) Kind() string { return "run" }

type riverWorker struct {
	river.WorkerDefaults[riverRun]
}

func (*riverWorker) Work(context.Context, *river.Job[riverRun]) error { return nil }

func riverBatch(first, n int) []river.InsertManyParams {
	params := make([]river.InsertManyParams, n)
	for i := range params {
		params[i].Args = riverRun{Run: first + i}
	}
	return params
}

// prefillRiver inserts through River, and marks the rows as its completer
// leaves them.
func prefillRiver(ctx context.Context, db *sql.DB, finished int) error {
	driver := riversqlite.New(db)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	client, err := river.NewClient(driver, &river.Config{})
	if err != nil {
		return err
	}
	for done := 0; done < finished; done += 1000 {
		if _, err := client.InsertManyFast(ctx, riverBatch(done, min(1000, finished-done))); err != nil {
			return err
		}
	}
	_, err = db.ExecContext(ctx, `UPDATE river_job SET state = 'completed', attempt = 1,
		attempted_at = strftime('%Y-%m-%d %H:%M:%f', 'now'), attempted_by = jsonb('["prefill"]'),
		finalized_at = strftime('%Y-%m-%d %H:%M:%f', 'now')`)
	return err
}

func openRiver(settings riverSettings) func(context.Context, *sql.DB, *ends, int) (*queue, error) {
	return func(ctx context.Context, db *sql.DB, ends *ends, runs int) (*queue, error) {
		workers := river.NewWorkers()
		river.AddWorker(workers, &riverWorker{})
		client, err := river.NewClient(riversqlite.New(db), &river.Config{
			Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: settings.workers}},
			Workers:           workers,
			FetchCooldown:     settings.cooldown,
			FetchPollInterval: settings.poll,
			Logger:            slog.New(complaintHandler{slog.DiscardHandler}),
		})
		if err != nil {
			return nil, err
		}
		// An event is sent when the completion is in the file.
		events, _ := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: runs, Kinds: []river.EventKind{river.EventKindJobCompleted}})
		if err := client.Start(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
		go func() { // ends with the client, which closes the channel
			run := 0
			for range events {
				ends.end(run)
				run++
			}
		}()
		return &queue{
			insert: func(ctx context.Context, first, n int) error {
				_, err := client.InsertManyFast(ctx, riverBatch(first, n))
				return err
			},
			unfinished: func(ctx context.Context) (int, error) {
				return count(ctx, db, "SELECT count(*) FROM river_job WHERE state IN ('available', 'running', 'scheduled', 'retryable', 'pending')")
			},
			finished: func(ctx context.Context) (int, error) {
				return count(ctx, db, "SELECT count(*) FROM river_job WHERE state = 'completed'")
			},
			stop: client.Stop,
		}, nil
	}
}

// complaintHandler counts what River logs at its default level, and drops it.
type complaintHandler struct{ slog.Handler }

func (complaintHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (complaintHandler) Handle(_ context.Context, r slog.Record) error {
	complain("river: %s", r.Message)
	return nil
}

func (h complaintHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h complaintHandler) WithGroup(string) slog.Handler      { return h }
