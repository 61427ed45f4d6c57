package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/host"
	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/worker/job"
)

// firstPollEvery is how soon --wait looks the first time; it doubles up to the
// poll interval, so that a short command is not waited for longer than it runs.
const firstPollEvery = 50 * time.Millisecond

type runRequest struct {
	ID         string `json:"id"`
	Mode       string `json:"mode"`
	RequestKey string `json:"requestKey,omitempty"`
}

type runAnswer struct {
	OK       bool   `json:"ok"`
	Enqueued bool   `json:"enqueued"`
	Ran      bool   `json:"ran"`
	RunID    string `json:"runId"`
}

func newCronRunCommand(a *app) *cobra.Command {
	var due, wait bool
	var waitTimeout, pollInterval, requestKey string
	cmd := jsonVerb(a, &cobra.Command{
		Use:   "run ID",
		Short: "Run a job now",
		Long: `Run a job now, whether or not it is due or enabled (--due: only if it is due).

Exit code 0: the run was accepted, or with --wait that it succeeded.`,
		Args: argsBetween(1, 1, "one job id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			timeout, poll, err := waitTimes(waitTimeout, pollInterval)
			if err != nil {
				return err
			}
			if a.timeoutMs == 0 {
				a.timeoutMs = runTimeoutMs
			}
			req := runRequest{ID: args[0], Mode: "force", RequestKey: requestKey}
			if due {
				req.Mode = "due"
			}
			raw, err := a.callRaw(cmd.Context(), "cron.run", req)
			if err != nil {
				return err
			}
			var answer runAnswer
			if err := json.Unmarshal(raw, &answer); err != nil {
				return err
			}
			if !wait || !answer.Enqueued {
				a.printJSON(raw)
				if answer.OK && (answer.Ran || answer.Enqueued) {
					return nil
				}
				return told(exitFailed)
			}
			return a.waitForRun(cmd.Context(), raw, args[0], answer.RunID, timeout, poll)
		},
	})
	flags := cmd.Flags()
	flags.BoolVar(&due, "due", false, "only if the job is due")
	flags.BoolVar(&wait, "wait", false, "wait for the end, and print the run")
	flags.StringVar(&waitTimeout, "wait-timeout", "10m", "give up waiting after this long")
	flags.StringVar(&pollInterval, "poll-interval", "2s", "longest pause between two looks")
	flags.StringVar(&requestKey, "request-key", "", "the same key gives the same run, for 7 days")
	return cmd
}

func waitTimes(timeout, poll string) (time.Duration, time.Duration, error) {
	timeoutMs, err := schedule.ParseDuration(timeout)
	if err != nil || timeoutMs <= 0 {
		return 0, 0, usage("Invalid --wait-timeout. Use a duration like 90s or 10m.")
	}
	pollMs, err := schedule.ParseDuration(poll)
	if err != nil || pollMs <= 0 {
		return 0, 0, usage("Invalid --poll-interval. Use a duration like 500ms or 2s.")
	}
	return time.Duration(timeoutMs) * time.Millisecond, time.Duration(pollMs) * time.Millisecond, nil
}

// waitForRun looks for the run in the history until it is there.
func (a *app) waitForRun(ctx context.Context, accepted json.RawMessage, jobID, runID string, timeout, poll time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for pause := min(firstPollEvery, poll); ; pause = min(2*pause, poll) {
		entry, err := a.finishedRun(waiting, jobID, runID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case waiting.Err() != nil:
			return &failure{Exit: exitTimeout, Code: "timeout", Message: "timed out waiting for cron run " + runID,
				Hint: fmt.Sprintf("it goes on: rota cron runs %s --run-id %s", jobID, runID)}
		case err != nil:
			return err
		case entry != nil:
			return a.printFinished(accepted, entry)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-waiting.Done():
			timer.Stop()
		}
	}
}

// finishedRun is the run's entry, nil while it has none. A history that is
// unavailable for a moment is not an answer: the run goes on all the same.
func (a *app) finishedRun(ctx context.Context, jobID, runID string) (json.RawMessage, error) {
	var page struct{ Entries []json.RawMessage }
	err := a.call(ctx, "cron.runs", runsParams{ID: jobID, RunID: runID, Limit: 1}, &page)
	var wire *host.WireError
	if errors.As(err, &wire) && (wire.Retryable || wire.Detail("code") == host.DetailJobNotFound) {
		return nil, nil // not found: a job that deletes itself has no entry before its run ends
	}
	if a.outlives(err) {
		return nil, nil
	}
	if err != nil || len(page.Entries) == 0 {
		return nil, err
	}
	return page.Entries[0], nil
}

func (a *app) printFinished(accepted, entry json.RawMessage) error {
	var e struct{ Status, CompletionStatus json.RawMessage }
	if err := json.Unmarshal(entry, &e); err != nil {
		return err
	}
	members := []job.Member{{Key: "completed", Value: json.RawMessage("true")}}
	for _, m := range []job.Member{{Key: "status", Value: e.Status}, {Key: "completionStatus", Value: e.CompletionStatus}} {
		if len(m.Value) > 0 {
			members = append(members, m)
		}
	}
	doc, err := job.Set(accepted, append(members, job.Member{Key: "run", Value: entry})...)
	if err != nil {
		return err
	}
	a.printJSON(json.RawMessage(doc))
	if string(e.CompletionStatus) != `"succeeded"` {
		return told(exitNotSucceeded)
	}
	return nil
}
