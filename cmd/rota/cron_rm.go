package main

import (
	"github.com/spf13/cobra"
)

func newCronRemoveCommand(a *app) *cobra.Command {
	return jsonVerb(a, &cobra.Command{
		Use:     "rm ID",
		Aliases: []string{"remove", "delete"},
		Short:   "Remove a job; its history stays",
		Args:    argsBetween(1, 1, "one job id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), "cron.remove", idParams{args[0]})
		},
	})
}
