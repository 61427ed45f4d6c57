package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

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
		Long: `Print committed events as JSON Lines {"seq","at","kind",…}.

Without --since all that are kept; with --follow, the events from now on, or
from --since on, until it is interrupted or the daemon stops.`,
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

func (a *app) followEvents(ctx context.Context, since int64) error {
	client, err := a.dial()
	if err != nil {
		return err
	}
	return client.Subscribe(ctx, since, func(ev worker.Event) error {
		if err := a.printJSONLine(ev); err != nil {
			return err
		}
		return a.out.Flush()
	})
}
