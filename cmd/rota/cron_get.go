package main

import (
	"github.com/spf13/cobra"
)

// idParams names one job.
type idParams struct {
	ID string `json:"id"`
}

func newCronGetCommand(a *app) *cobra.Command {
	return jsonVerb(a, &cobra.Command{
		Use:   "get ID",
		Short: "Print one job as JSON",
		Args:  argsBetween(1, 1, "one job id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), "cron.get", idParams{args[0]})
		},
	})
}
