package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/worker"
)

// logsPollEvery is how often --follow looks for more output of an active run.
const logsPollEvery = 500 * time.Millisecond

type logsAnswer struct {
	RunID   string          `json:"runId"`
	Running bool            `json:"running"`
	Text    string          `json:"text"`
	Status  string          `json:"status,omitempty"`
	Run     json.RawMessage `json:"run,omitempty"`
}

func newCronLogsCommand(a *app) *cobra.Command {
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "logs RUN",
		Short: "Print what a run printed",
		Args:  argsBetween(1, 1, "one run id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow {
				return a.followLogs(cmd.Context(), args[0], asJSON)
			}
			var logs logsAnswer
			if err := a.call(cmd.Context(), "rota.logs", runParams{args[0]}, &logs); err != nil {
				return err
			}
			a.printLogs(logs, asJSON)
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run ends")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printLogs(logs logsAnswer, asJSON bool) {
	if asJSON {
		a.printJSON(logs)
		return
	}
	text := escapeLines(logs.Text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	a.printText(text)
	if text == "" && !logs.Running {
		a.talkf("nothing was printed, or it was not kept: the output of a run that a kill of the daemon cut short is lost\n")
	}
}

// followLogs prints what is new until the run has ended. Output that was
// captured and dropped again between two looks is marked, not invented.
func (a *app) followLogs(ctx context.Context, runID string, asJSON bool) error {
	ended, stop := a.watchEnd(ctx, runID)
	defer stop()
	shown, met := "", false
	for {
		var logs logsAnswer
		err := a.call(ctx, "rota.logs", runParams{runID}, &logs)
		if away := err != nil && met && a.outlives(err); away {
			logs = logsAnswer{Running: true, Text: shown}
		} else if err != nil {
			return err
		}
		met = true
		if asJSON {
			if !logs.Running {
				a.printLogs(logs, true)
				return nil
			}
		} else {
			fresh, ok := strings.CutPrefix(logs.Text, shown)
			if !ok {
				fresh = "\n[the output was cut; from here it is shown anew]\n" + logs.Text
			}
			shown = logs.Text
			a.printText(escapeLines(fresh))
			if !logs.Running && shown != "" && !strings.HasSuffix(shown, "\n") {
				a.printText("\n")
			}
		}
		if !logs.Running {
			return nil
		}
		if err := a.out.Flush(); err != nil {
			return err
		}
		wait := time.NewTimer(logsPollEvery)
		select {
		case <-wait.C:
		case <-ended:
			ended = nil // once: the next look finds it in the history
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
		wait.Stop()
	}
}

// watchEnd closes the channel when the run's end is committed, on a connection
// of its own. Without one, polling finds the end a little later.
func (a *app) watchEnd(ctx context.Context, runID string) (<-chan struct{}, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	events, err := a.dialAgain(ctx)
	if err != nil {
		return ended, cancel
	}
	go func() {
		defer events.Close()
		_ = events.Subscribe(ctx, -1, func(ev worker.Event) error {
			if ev.Kind != worker.EventFinished || ev.RunID != runID {
				return nil
			}
			close(ended)
			return context.Canceled
		})
	}()
	return ended, cancel
}
