package main

import (
	"bufio"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/host"
)

// app is what every verb has: streams, the flags that stand everywhere, and
// one connection to the daemon, opened when first needed.
type app struct {
	in       io.Reader
	out      *bufio.Writer // results
	talk     io.Writer     // everything else
	terminal bool          // out is a terminal

	stateDirFlag string
	urlFlag      string // of a gateway; "" = ROTA_URL, else the socket
	tokenFlag    string
	color        string // auto, always or never
	timeoutMs    int64  // for one call; 0 = the verb's default

	// alwaysJSON is set by a verb whose result is JSON with or without --json,
	// before it can fail: its errors are JSON too.
	alwaysJSON bool

	client *host.Client
	scope  string // that client has
	warned bool   // that a token goes unencrypted
	lost   bool   // told that the connection is gone
}

// verbs are the top-level commands; each is one line and one file.
var verbs = []func(*app) *cobra.Command{
	newServeCommand,
	newBenchCommand,
	newCronCommand,
	newNextCommand,
	newCheckCommand,
	newWhyCommand,
	newEventsCommand,
	newBackupCommand,
	newVersionCommand,
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "rota",
		Short: "A scheduler for one machine",
		Long: `rota keeps jobs and their history in one SQLite file, decides what is due,
runs it, and says afterwards what happened to every slot.

Start the daemon with "rota serve"; "rota cron add --help" makes the first job.`,
		Args:              groupArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetOut(a.out)
	root.SetErr(a.talk)
	flags := root.PersistentFlags()
	flags.StringVar(&a.stateDirFlag, "state-dir", "", "directory of the database and the socket (env ROTA_STATE_DIR)")
	flags.StringVar(&a.urlFlag, "url", "", "ask the daemon at this url, ws://HOST:PORT, instead of the socket (env ROTA_URL)")
	flags.StringVar(&a.tokenFlag, "token", "", "its token (env ROTA_TOKEN, which other users cannot see in a process list; default for this machine: the file token in the state directory)")
	flags.StringVar(&a.color, "color", "auto", "auto, always or never; NO_COLOR is honoured")
	root.SetFlagErrorFunc(flagFailure)
	for _, verb := range verbs {
		root.AddCommand(verb(a))
	}
	return root
}

// talkf writes to the person, not to the parser of the result.
func (a *app) talkf(format string, args ...any) { fmt.Fprintf(a.talk, format, args...) }

// groupArgs refuses an unknown verb of a group in the form of every other
// usage error.
func groupArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	f := usage("unknown command %q for %q", args[0], cmd.CommandPath())
	f.Hint = fmt.Sprintf("%s --help lists the commands", cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		f.Hint = "did you mean " + cmd.CommandPath() + " " + near[0] + "?"
	}
	return f
}

// argsBetween is a check of positional arguments; what names them in the error.
func argsBetween(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= low && len(args) <= high {
			return nil
		}
		f := usage("%s takes %s, and got %d arguments", cmd.CommandPath(), what, len(args))
		f.Hint = fmt.Sprintf("%s --help", cmd.CommandPath())
		return f
	}
}
