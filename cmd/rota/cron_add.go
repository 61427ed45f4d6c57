package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/worker/job"
)

func newCronAddCommand(a *app) *cobra.Command {
	var f jobFlags
	var disabled bool
	var declarationKey string
	cmd := jsonVerb(a, &cobra.Command{
		Use:     "add [SCHEDULE|NAME]",
		Aliases: []string{"create"},
		Short:   "Add a job",
		Long: `Add a job: a name, one schedule, and one command or request.

  rota cron add --name backup --cron "30 2 * * *" --command "backup.sh"
  rota cron add "every 10m" --name probe --command-argv '["probe","--fast"]'
  rota cron add "every 1h" --name ping --http https://example.net/ping \
    --http-header "Authorization: Bearer TOKEN" --http-body '{"from":"rota"}'

--webhook sends the result of each run to a URL.

A schedule may stand alone: five or six fields are a cron expression, "every X"
an interval, anything else a time. What was filled in is said on stderr.`,
		Args: argsBetween(0, 2, "at most a schedule or a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			params, err := addParams(&f, args, time.Now().UnixMilli())
			if err != nil {
				return err
			}
			if declarationKey != "" {
				params["declarationKey"] = declarationKey
			}
			// With a key an existing job may be meant: its enablement is left
			// alone unless --disabled says otherwise.
			if declarationKey == "" || disabled {
				params["enabled"] = !disabled
			}
			raw, err := a.callRaw(cmd.Context(), "cron.add", params)
			if err != nil {
				return err
			}
			if raw, err = a.tellNotes(raw); err != nil {
				return err
			}
			a.printJSON(raw)
			a.warnIfDisabled(cmd.Context())
			return nil
		},
	})
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&disabled, "disabled", false, "add it switched off")
	cmd.Flags().StringVar(&declarationKey, "declaration-key", "", "the same key changes the same job, and adds none")
	return cmd
}

// addParams are cron.add's parameters.
func addParams(f *jobFlags, args []string, nowMs int64) (map[string]any, error) {
	if err := takePositional(f, args); err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	spec, err := f.newSchedule(nowMs)
	if err != nil {
		return nil, err
	}
	if spec == nil {
		return nil, usage("Choose exactly one schedule: --at, --every, or --cron")
	}
	payload, err := f.payload()
	if err != nil {
		return nil, err
	}
	if !payload.whole {
		return nil, usage(choosePayload)
	}
	if f.given("best-effort-deliver") && !f.given("webhook") {
		return nil, usage("--best-effort-deliver goes with --webhook URL")
	}
	if f.anyGiven("catch-up-limit", "max-lateness") && !f.given("catch-up") {
		return nil, usage("--catch-up-limit and --max-lateness need --catch-up one|all|skip")
	}
	if strings.TrimSpace(f.name) == "" {
		return nil, usage("Cron job name is required. Pass a name or --name <name>.")
	}
	params := map[string]any{"schedule": spec, "payload": payload.params(), "sessionTarget": "isolated", "wakeMode": "now"}
	f.texts(params)
	policy, err := f.catchUpPolicy()
	if policy != nil {
		params["catchUp"] = policy
	}
	return params, err
}

// takePositional reads the words without a flag: a schedule, or the name where
// a flag has the schedule already.
func takePositional(f *jobFlags, args []string) error {
	if len(args) == 2 {
		failure := usage("a message makes an agent turn, which this build does not have")
		failure.Code, failure.Hint = "unsupported", "give what to run with --command"
		return failure
	}
	if len(args) == 0 {
		return nil
	}
	word := strings.TrimSpace(args[0])
	if f.anyGiven("at", "every", "cron") {
		if f.given("name") {
			return usage("two names or two schedules were given: %q stands alone, and there are flags for both", word)
		}
		return f.set.Set("name", word)
	}
	fields := strings.Fields(word)
	if rest, ok := strings.CutPrefix(word, "every "); ok {
		return f.set.Set("every", strings.TrimSpace(rest))
	}
	if len(fields) == 5 || len(fields) == 6 || strings.HasPrefix(word, "@") {
		return f.set.Set("cron", word)
	}
	return f.set.Set("at", word)
}

// tellNotes says what bites on stderr, and gives the result without it.
func (a *app) tellNotes(raw json.RawMessage) (json.RawMessage, error) {
	var answer struct{ Notes []string }
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, err
	}
	if len(answer.Notes) == 0 {
		return raw, nil
	}
	for _, note := range answer.Notes {
		a.talkf("note: %s\n", escapeText(note))
	}
	return job.Set(raw, job.Member{Key: "notes"})
}
