package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// laterFlags are words of the command line's contract whose kind this build
// does not run. Taking one would be a promise that nothing keeps; "unknown
// flag" would say less than is known.
var laterFlags = []struct {
	kind  string
	words []string
}{
	{"agent turns", []string{"message", "model", "fallbacks", "thinking", "light-context", "no-light-context", "tools", "clear-model", "clear-fallbacks", "clear-thinking", "clear-tools"}},
	{"system events", []string{"system-event"}},
	{"script payloads", []string{"script", "script-timeout-seconds", "script-tool-budget"}},
	{"on-exit schedules", []string{"on-exit", "on-exit-cwd"}},
	{"stream schedules", []string{"stream-command", "stream-cwd", "stream-mode", "stream-match", "stream-batch-ms", "stream-max-batch-bytes"}},
	{"condition triggers", []string{"trigger-script", "trigger-once", "clear-trigger"}},
	{"pacing", []string{"pacing-min", "pacing-max", "clear-pacing"}},
	{"delivery to a channel", []string{"announce", "deliver", "channel", "to", "thread-id", "account", "clear-channel", "clear-to", "clear-thread-id", "clear-account"}},
	{"failure alerts", []string{"failure-alert", "no-failure-alert", "failure-alert-after", "failure-alert-channel", "failure-alert-to", "failure-alert-cooldown", "failure-alert-include-skipped", "failure-alert-exclude-skipped", "failure-alert-mode", "failure-alert-account-id"}},
	{"gateways of other kinds", []string{"port", "password"}},
}

// laterKind is what a flag belongs to, "" for a word that never was one.
func laterKind(word string) string {
	for _, later := range laterFlags {
		if slices.Contains(later.words, word) {
			return later.kind
		}
	}
	return ""
}

// flagFailure words a command line whose flags do not parse.
func flagFailure(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if kind := laterKind(unknown.GetSpecifiedName()); kind != "" {
			f := usage("--%s belongs to %s, which this build does not have", unknown.GetSpecifiedName(), kind)
			f.Code = "unsupported"
			f.Hint = fmt.Sprintf("what there is: commands (--command, --command-argv) and requests (--http) on --at, --every or --cron schedules; see %s --help", cmd.CommandPath())
			return f
		}
	}
	f := usage("%s", err.Error())
	f.Hint = fmt.Sprintf("%s --help", cmd.CommandPath())
	return f
}
