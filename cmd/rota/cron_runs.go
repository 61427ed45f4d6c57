package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/worker/job"
)

type runsParams struct {
	Scope          string `json:"scope,omitempty"`
	ID             string `json:"id,omitempty"`
	RunID          string `json:"runId,omitempty"`
	Limit          int    `json:"limit,omitempty"`
	Offset         int    `json:"offset,omitempty"`
	Status         string `json:"status,omitempty"`
	DeliveryStatus string `json:"deliveryStatus,omitempty"`
	Query          string `json:"query,omitempty"`
	SortDir        string `json:"sortDir,omitempty"`
}

func newCronRunsCommand(a *app) *cobra.Command {
	var p runsParams
	cmd := jsonVerb(a, &cobra.Command{
		Use:   "runs [ID]",
		Short: "Print the run history, of one job or of all",
		Args:  argsBetween(0, 1, "at most one job id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if p.ID != "" && p.ID != args[0] {
					return usage("two different ids were given: %s and --id %s", args[0], p.ID)
				}
				p.ID = args[0]
			}
			if p.Scope = "job"; p.ID == "" {
				p.Scope = "all"
			}
			raw, err := a.callRaw(cmd.Context(), "cron.runs", p)
			if err != nil {
				return err
			}
			page, err := explainRuns(raw)
			if err != nil {
				return err
			}
			a.printJSON(page)
			return nil
		},
	})
	flags := cmd.Flags()
	flags.StringVar(&p.ID, "id", "", "the job")
	flags.StringVar(&p.RunID, "run-id", "", "exactly this run")
	flags.StringVar(&p.Status, "status", "", "all, ok, error or skipped")
	flags.StringVar(&p.DeliveryStatus, "delivery-status", "", "delivered, not-delivered, unknown or not-requested")
	flags.StringVar(&p.Query, "query", "", "text to look for")
	flags.IntVar(&p.Limit, "limit", 50, "entries to print, 1 to 200")
	flags.IntVar(&p.Offset, "offset", 0, "entries to pass over")
	flags.StringVar(&p.SortDir, "sort", "", "desc (newest first) or asc")
	return cmd
}

// explainRuns adds to each entry its cause and its times as a person reads
// them.
func explainRuns(raw json.RawMessage) (json.RawMessage, error) {
	var page struct {
		Entries []json.RawMessage `json:"entries"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return nil, err
	}
	for i, entry := range page.Entries {
		full, err := explainRun(entry)
		if err != nil {
			return nil, err
		}
		page.Entries[i] = full
	}
	entries, err := job.Encode(page.Entries)
	if err != nil {
		return nil, err
	}
	return job.Set(raw, job.Member{Key: "entries", Value: entries})
}

func explainRun(entry json.RawMessage) (json.RawMessage, error) {
	var e struct {
		Action      string `json:"action"`
		ErrorReason string `json:"errorReason"`
		Ts          int64  `json:"ts"`
		RunAtMs     *int64 `json:"runAtMs"`
		NextRunAtMs *int64 `json:"nextRunAtMs"`
	}
	if err := json.Unmarshal(entry, &e); err != nil || e.Action != "finished" {
		return entry, err
	}
	text := func(key, s string) job.Member {
		raw, _ := job.Encode(s) // a string always encodes
		return job.Member{Key: key, Value: raw}
	}
	var added []job.Member
	if e.ErrorReason != "" {
		added = append(added, text("cause", e.ErrorReason))
	}
	added = append(added, text("tsIso", localISO(e.Ts)))
	if e.RunAtMs != nil {
		added = append(added, text("runAtIso", localISO(*e.RunAtMs)))
	}
	if e.NextRunAtMs != nil {
		added = append(added, text("nextRunAtIso", localISO(*e.NextRunAtMs)))
	}
	return job.Set(entry, added...)
}
