package main

import (
	"context"

	"github.com/spf13/cobra"
)

type updateParams struct {
	ID               string         `json:"id"`
	Patch            map[string]any `json:"patch"`
	ExpectedRevision string         `json:"expectedConfigRevision,omitempty"`
	Stop             bool           `json:"stop,omitempty"`
	Reason           string         `json:"reason,omitempty"`
}

func newCronEnableCommand(a *app) *cobra.Command {
	return jsonVerb(a, &cobra.Command{
		Use:   "enable ID",
		Short: "Let a job fire",
		Args:  argsBetween(1, 1, "one job id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.update(cmd.Context(), updateParams{ID: args[0], Patch: map[string]any{"enabled": true}})
		},
	})
}

func newCronDisableCommand(a *app) *cobra.Command {
	var stop bool
	var reason string
	cmd := jsonVerb(a, &cobra.Command{
		Use:   "disable ID",
		Short: "Keep a job from firing; an active run ends by itself",
		Args:  argsBetween(1, 1, "one job id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := a.update(cmd.Context(), updateParams{ID: args[0], Patch: map[string]any{"enabled": false}, Stop: stop, Reason: reason})
			if err == nil && a.terminal {
				a.talkf("The job is kept; `rota cron enable %s` lets it fire again.\n", escapeText(args[0]))
			}
			return err
		},
	})
	cmd.Flags().BoolVar(&stop, "stop", false, "also abort an active run")
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept with the job and shown")
	return cmd
}

// update patches a job and prints it as it is now.
func (a *app) update(ctx context.Context, params updateParams) error {
	raw, err := a.callRaw(ctx, "cron.update", params)
	if err != nil {
		return err
	}
	a.printJSON(raw)
	a.warnIfDisabled(ctx)
	return nil
}
