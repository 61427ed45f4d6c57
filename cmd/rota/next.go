package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/schedule"
)

// maxNext bounds how many slots one answer holds.
const maxNext = 1000

// preview is the answer of next.
type preview struct {
	Kind        string   `json:"kind"`
	Expr        string   `json:"expr,omitempty"`
	EveryMs     int64    `json:"everyMs,omitempty"`
	TZ          string   `json:"tz,omitempty"`
	Description string   `json:"description"`
	FixedTime   bool     `json:"fixedTime"`
	Next        []string `json:"next"`
	Warnings    []string `json:"warnings"`

	zone *schedule.Zone // for showing times to a person
}

type nextFlags struct {
	every, anchor, at, tz, from, dst string
	n                                int
	asJSON, batch                    bool
}

func newNextCommand(a *app) *cobra.Command {
	var f nextFlags
	cmd := &cobra.Command{
		Use:   "next [EXPR]",
		Short: "Say when a schedule fires; needs no daemon",
		Long: `Say when a schedule fires, without a daemon.

  rota next "0 9 * * 1-5" --tz Europe/Oslo
  rota next --every 90m --anchor 2026-01-01T00:00:00Z
  rota next --batch < schedules.jsonl

--batch reads JSON Lines {"id","expr"|"everyMs"|"at","tz"?,"anchorMs"?,
"from"?|"nowMs"?,"dst"?,"n"?} and answers each line with {"id","next":[…]} or
{"id","error":{…}}.`,
		Args: argsBetween(0, 6, "one expression"),
		RunE: func(cmd *cobra.Command, args []string) error {
			nowMs := time.Now().UnixMilli()
			if f.batch {
				return a.nextBatch(cmd.Context(), nowMs)
			}
			p, err := nextPreview(cmd, &f, strings.Join(args, " "), nowMs)
			if err != nil {
				return err
			}
			if f.asJSON {
				a.printJSON(p)
				return nil
			}
			a.printPreview(p)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.every, "every", "", "an interval instead of an expression")
	flags.StringVar(&f.anchor, "anchor", "", "a time on the interval's grid (default: --from)")
	flags.StringVar(&f.at, "at", "", "one time instead of an expression")
	flags.StringVar(&f.tz, "tz", "", "time zone (default: this machine's)")
	flags.StringVar(&f.from, "from", "", "look after this time (default: now)")
	flags.StringVar(&f.dst, "dst", "vixie", "daylight saving: vixie or skip")
	flags.IntVarP(&f.n, "count", "n", 6, "how many")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	flags.BoolVar(&f.batch, "batch", false, "read schedules as JSON Lines on stdin")
	return cmd
}

func nextPreview(cmd *cobra.Command, f *nextFlags, expr string, nowMs int64) (preview, error) {
	chosen := 0
	for _, given := range []bool{expr != "", cmd.Flags().Changed("every"), cmd.Flags().Changed("at")} {
		if given {
			chosen++
		}
	}
	if chosen != 1 {
		return preview{}, usage("give one expression, or --every, or --at")
	}
	if f.n < 1 || f.n > maxNext {
		return preview{}, usage("-n must be from 1 to %d", maxNext)
	}
	q := nextQuery{TZ: f.tz, DST: f.dst, N: f.n, NowMs: &nowMs}
	switch {
	case expr != "":
		q.Expr = &expr
	case f.every != "" || cmd.Flags().Changed("every"):
		ms, err := schedule.ParseDuration(f.every)
		if err != nil {
			return preview{}, err
		}
		q.everyMs = &ms
	default:
		q.At = &f.at
	}
	zone, err := q.zone()
	if err != nil {
		return preview{}, err
	}
	if f.from != "" {
		fromMs, err := schedule.ParseAt(f.from, zone)
		if err != nil {
			return preview{}, err
		}
		q.NowMs = &fromMs
	}
	if f.anchor != "" {
		anchorMs, err := schedule.ParseAt(f.anchor, zone)
		if err != nil {
			return preview{}, err
		}
		q.anchorMs = &anchorMs
	}
	return q.preview(zone)
}

func (a *app) printPreview(p preview) {
	a.printText(p.Description + "\n")
	for _, w := range p.Warnings {
		a.talkf("warning: %s\n", w)
	}
	location := time.Local
	if p.zone != nil {
		location = p.zone.Location()
	}
	for _, text := range p.Next {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			continue // written by FormatInstant
		}
		local := at.In(location)
		a.printText(fmt.Sprintf("%s  %s\n", local.Format("Mon 2006-01-02 15:04:05 -07:00"), local.Format("MST")))
	}
}
