package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/mikestefanello/backlite"
)

// backlite: a table of tasks and one of completed tasks, a dispatcher that is
// woken by each insert, and workers.

// backliteWorkers is more than can be in flight: a dispatcher without a free
// worker sleeps 100 ms.
const backliteWorkers = 512

type backliteRun struct {
	Run int
}

func (backliteRun) Config() backlite.QueueConfig {
	return backlite.QueueConfig{
		Name:        "runs",
		MaxAttempts: 1,
		Timeout:     time.Minute,
		Retention:   &backlite.Retention{}, // completed tasks are kept, as rota and River keep theirs
	}
}

func newBacklite(db *sql.DB, ends *ends) (*backlite.Client, error) {
	client, err := backlite.NewClient(backlite.ClientConfig{
		DB:           db,
		Logger:       backliteLog{},
		NumWorkers:   backliteWorkers,
		ReleaseAfter: 10 * time.Minute,
	})
	if err == nil {
		client.Register(backlite.NewQueue(func(_ context.Context, t backliteRun) error {
			ends.end(t.Run)
			return nil
		}))
	}
	return client, err
}

func backliteBatch(first, n int) []backlite.Task {
	tasks := make([]backlite.Task, n)
	for i := range tasks {
		tasks[i] = backliteRun{Run: first + i}
	}
	return tasks
}

// prefillBacklite adds through backlite, and moves the rows as it does when a
// task succeeds.
func prefillBacklite(ctx context.Context, db *sql.DB, finished int) error {
	client, err := newBacklite(db, nil)
	if err != nil {
		return err
	}
	if err := client.Install(); err != nil {
		return err
	}
	for done := 0; done < finished; done += 1000 {
		if _, err := client.Add(backliteBatch(done, min(1000, finished-done))...).Ctx(ctx).Save(); err != nil {
			return err
		}
	}
	_, err = db.ExecContext(ctx, `
		INSERT INTO backlite_tasks_completed (id, created_at, queue, last_executed_at, attempts, last_duration_micro, succeeded)
			SELECT id, created_at, queue, created_at, 1, 1, 1 FROM backlite_tasks;
		DELETE FROM backlite_tasks`)
	return err
}

func openBacklite(ctx context.Context, db *sql.DB, ends *ends, _ int) (*queue, error) {
	client, err := newBacklite(db, ends)
	if err != nil {
		return nil, err
	}
	client.Start(context.WithoutCancel(ctx))
	return &queue{
		insert: func(ctx context.Context, first, n int) error {
			_, err := client.Add(backliteBatch(first, n)...).Ctx(ctx).Save()
			return err
		},
		unfinished: func(ctx context.Context) (int, error) { return count(ctx, db, "SELECT count(*) FROM backlite_tasks") },
		finished: func(ctx context.Context) (int, error) {
			return count(ctx, db, "SELECT count(*) FROM backlite_tasks_completed WHERE succeeded = 1")
		},
		stop: func(ctx context.Context) error {
			if !client.Stop(ctx) {
				return errors.New("its workers did not stop")
			}
			return nil
		},
	}, nil
}

type backliteLog struct{}

func (backliteLog) Info(string, ...any) {}

func (backliteLog) Error(message string, args ...any) { complain("backlite: %s %v", message, args) }
