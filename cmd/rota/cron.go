package main

import (
	"github.com/spf13/cobra"
)

// newCronCommand is the group of verbs about jobs and runs. Its exit codes
// are 0 and 1.
func newCronCommand(a *app) *cobra.Command {
	group := &cobra.Command{
		Use:     "cron",
		Aliases: []string{"automations"},
		Short:   "Jobs and their runs",
		Long: `Jobs and their runs, on the daemon of the state directory.

Every verb here exits with 0, or with 1 when it failed; with --json an error is
{"ok":false,"error":{"type":"cli_error","code","message","hint"}} on stdout.`,
		Args: groupArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := group.PersistentFlags()
	flags.Int64Var(&a.timeoutMs, "timeout", 0, "milliseconds to wait for one answer (default 30000; run: 600000)")
	flags.Bool("expect-final", false, "accepted for scripts of other clients; every answer is final")
	_ = flags.MarkHidden("expect-final")
	group.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if a.timeoutMs < 0 || cmd.Flags().Changed("timeout") && a.timeoutMs == 0 {
			return usage("--timeout must be a positive number of milliseconds")
		}
		return nil
	}
	group.AddCommand(
		newCronStatusCommand(a), newCronListCommand(a), newCronAddCommand(a), newCronEditCommand(a),
		newCronEnableCommand(a), newCronDisableCommand(a), newCronRemoveCommand(a),
		newCronGetCommand(a), newCronShowCommand(a), newCronRunsCommand(a), newCronRunCommand(a),
		newCronLogsCommand(a), newCronStopCommand(a),
	)
	return group
}

// jsonVerb marks a verb whose result is always JSON; it takes --json for
// symmetry.
func jsonVerb(a *app, cmd *cobra.Command) *cobra.Command {
	cmd.Flags().Bool("json", false, "print JSON (this command always does)")
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		a.alwaysJSON = true
		if check == nil {
			return nil
		}
		return check(cmd, args)
	}
	return cmd
}
