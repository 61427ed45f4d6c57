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
			raw, err := a.callRaw(cmd.Context(), "rota.stop", runParams{args[0]})
			if err != nil {
				return err
			}
			a.printJSON(raw)
			return nil
		},
	})
}
