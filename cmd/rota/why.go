package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
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
	slot := "no slot yet"
	if why.SlotMs != 0 {
		slot = "slot " + localTime(why.SlotMs)
	}
	a.printText(fmt.Sprintf("%s, %s\n", escapeText(name), slot))
	for _, d := range why.Decisions {
		text, inputs := splitDetail(d.Detail)
		line := fmt.Sprintf("  %s  %s (%s)", localTime(d.AtMs), d.Verdict, d.Rule)
		if text != "" {
			line += ": " + text
		}
		a.printText(escapeText(line) + "\n")
		for _, input := range inputs {
			a.printText("    " + escapeText(input) + "\n")
		}
	}
	return nil
}

// maxInputText cuts one input of a decision; --json has all of it.
const maxInputText = 200

// splitDetail takes the sentence out of a decision's detail; the rest are its
// inputs, one "key value" each.
func splitDetail(detail json.RawMessage) (text string, inputs []string) {
	for key, value := range job.Members(detail) {
		switch {
		case key == "text":
			_ = json.Unmarshal(value, &text) // not a string: there is no sentence
		case string(value) == "null":
		default:
			shown := []rune(shownInput(key, value))
			if len(shown) > maxInputText {
				shown = append(shown[:maxInputText], '…')
			}
			inputs = append(inputs, key+" "+string(shown))
		}
	}
	return text, inputs
}

// earliestShownMs tells an instant from a span of time: no daemon ran before.
const earliestShownMs = 1_000_000_000_000

// shownInput is an input as people read it: an instant as a time, the rest as
// it is.
func shownInput(key string, value json.RawMessage) string {
	var ms int64
	if strings.HasSuffix(key, "Ms") && json.Unmarshal(value, &ms) == nil && ms >= earliestShownMs {
		return localTime(ms)
	}
	return string(value)
}
