package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/host"
	"github.com/rota-scheduler/rota/worker"
)

type eventsParams struct {
	Since int64 `json:"since"`
	Limit int   `json:"limit"`
}

const eventsPageRows = 1000

func newEventsCommand(a *app) *cobra.Command {
	var follow bool
	var since int64
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print committed events as JSON Lines",
		Long: `Print committed events as JSON Lines {"seq","at","kind",…}. seq rises and is
never given twice; decisions about slots take numbers too, so some are left out.

Without --since all that are kept; with --follow, the events from now on, or
from --since on, until it is interrupted. When the daemon goes away, --follow
waits for it and goes on after the last event it printed.`,
		Args: argsBetween(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since < 0 {
				return usage("--since must not be negative")
			}
			if !follow {
				return a.printEvents(cmd.Context(), since)
			}
			if !cmd.Flags().Changed("since") {
				since = -1
			}
			return a.followEvents(cmd.Context(), since)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens")
	cmd.Flags().Int64Var(&since, "since", 0, "only events after this sequence number")
	cmd.Flags().Bool("json", false, "print JSON Lines (this command always does)")
	return cmd
}

func (a *app) printEvents(ctx context.Context, since int64) error {
	for {
		var page struct {
			Events    []json.RawMessage
			NextSince int64
		}
		if err := a.call(ctx, "rota.events", eventsParams{since, eventsPageRows}, &page); err != nil {
			return err
		}
		for _, ev := range page.Events {
			if err := a.printJSONLine(ev); err != nil {
				return err
			}
		}
		if len(page.Events) == 0 || page.NextSince <= since {
			return nil
		}
		since = page.NextSince
	}
}

// followEvents goes on where it was when the connection, or the daemon, comes
// back.
func (a *app) followEvents(ctx context.Context, since int64) error {
	told := false // of one loss once, however often it is tried
	each := func(ev worker.Event) error {
		told = false
		if err := a.printJSONLine(ev); err != nil {
			return err
		}
		return a.out.Flush()
	}
	lost := func(cause error, _ time.Duration) {
		if !told {
			a.talkf("the connection is lost: %v; it is tried again until it is there, and nothing is missed\n", escapeText(cause.Error()))
		}
		told = true
	}
	return host.Follow(ctx, a.dialAgain, since, each, lost)
}
