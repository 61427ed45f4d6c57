package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/worker"
)

func newWhyCommand(a *app) *cobra.Command {
	var at, tz string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why JOB",
		Short: "Say why a slot ran, or did not",
		Long: `Say each decision about one slot of a job, in order, with its inputs.

JOB is an id or an exact name. Without --at it is the last slot decided.`,
		Args: argsBetween(1, 1, "one job id or name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"job": args[0]}
			if cmd.Flags().Changed("at") {
				atMs, err := parseWhyAt(at, tz, time.Now().UnixMilli())
				if err != nil {
					return err
				}
				params["atMs"] = atMs
			}
			raw, err := a.callRaw(cmd.Context(), "rota.why", params)
			if err != nil {
				return err
			}
			if asJSON {
				a.printJSON(raw)
				return nil
			}
			return a.printWhy(raw)
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "the slot: an ISO timestamp, or a duration ago such as -2h")
	cmd.Flags().StringVar(&tz, "tz", "", "time zone of an --at without offset (default UTC)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// parseWhyAt looks back: "-2h" is two hours ago.
func parseWhyAt(text, tz string, nowMs int64) (int64, error) {
	if len(text) > 1 && text[0] == '-' {
		ms, err := parseAtFlag("+"+text[1:], "", 0)
		return nowMs - ms, err
	}
	return parseAtFlag(text, tz, nowMs)
}

func (a *app) printWhy(raw json.RawMessage) error {
	var why struct {
		Job       string
		Name      string
		SlotMs    int64
		Decisions []worker.Decision
	}
	if err := json.Unmarshal(raw, &why); err != nil {
		return err
	}
	name := why.Job
	if why.Name != "" {
		name = why.Name + " (" + why.Job + ")"
	}
	if len(why.Decisions) == 0 {
		a.printText("No decision is kept about this slot of " + escapeText(name) + ".\n")
		return nil
	}
	a.printText(fmt.Sprintf("%s, slot %s\n", escapeText(name), localTime(why.SlotMs)))
	for _, d := range why.Decisions {
		detail := ""
		if len(d.Detail) > 0 && string(d.Detail) != "null" && string(d.Detail) != "{}" {
			detail = "  " + escapeText(string(d.Detail))
		}
		a.printText(fmt.Sprintf("  %s  %-20s %s%s\n", localTime(d.AtMs), escapeText(d.Rule), escapeText(d.Verdict), detail))
	}
	return nil
}
