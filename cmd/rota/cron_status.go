package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newCronStatusCommand(a *app) *cobra.Command {
	return jsonVerb(a, &cobra.Command{
		Use:   "status",
		Short: "Show the scheduler: its file, its jobs, its next wake",
		Args:  argsBetween(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd.Context(), "cron.status", nil)
		},
	})
}

// warnIfDisabled tells the person who changed a job that nothing will fire.
// The change is made: a failure to ask is not a failure of the command.
func (a *app) warnIfDisabled(ctx context.Context) {
	var status struct{ Enabled bool }
	if err := a.call(ctx, "cron.status", nil, &status); err == nil && !status.Enabled {
		a.talkf("warning: the scheduler is off (cron.enabled is false): the job is kept and does not fire\n")
	}
}
