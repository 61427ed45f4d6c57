package main

import (
	"github.com/spf13/cobra"
)

type runParams struct {
	RunID string `json:"runId"`
}

func newCronStopCommand(a *app) *cobra.Command {
	return jsonVerb(a, &cobra.Command{
		Use:   "stop RUN",
		Short: "Abort an active run, or skip one that waits",
		Args:  argsBetween(1, 1, "one run id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), "rota.stop", runParams{args[0]})
		},
	})
}
