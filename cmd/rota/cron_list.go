package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/worker/job"
)

// Bounds of collecting a list: pages, and starts from the beginning after the
// jobs changed between two pages.
const (
	listPageRows    = 200
	maxListPages    = 50
	maxListRestarts = 3
)

func newCronListCommand(a *app) *cobra.Command {
	var all, asJSON bool
	var agent string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs",
		Args:  argsBetween(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			params := listParams{IncludeDisabled: all, AgentID: agent, Limit: listPageRows}
			list, err := a.collectJobs(cmd.Context(), params)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printList(list)
			}
			if err := a.printJobTable(list, time.Now().UnixMilli()); err != nil {
				return err
			}
			return a.noteUnlisted(cmd.Context(), list, params)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&all, "all", false, "also disabled jobs")
	flags.StringVar(&agent, "agent", "", "only jobs of this agent")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// noteUnlisted says what a list does not show: disabled jobs, and that schedules
// are off.
func (a *app) noteUnlisted(ctx context.Context, list jobPage, params listParams) error {
	var status struct {
		Enabled bool `json:"enabled"`
		Jobs    int  `json:"jobs"`
	}
	if err := a.call(ctx, "cron.status", struct{}{}, &status); err != nil {
		return err
	}
	if hidden := status.Jobs - list.Total; hidden > 0 && !params.IncludeDisabled && params.AgentID == "" {
		a.talkf("%d disabled not shown: rota cron list --all\n", hidden)
	}
	if !status.Enabled {
		a.talkf("schedules are off (cron.enabled is false in the configuration): nothing fires\n")
	}
	return nil
}

type listParams struct {
	IncludeDisabled bool   `json:"includeDisabled"`
	AgentID         string `json:"agentId,omitempty"`
	Query           string `json:"query,omitempty"`
	Limit           int    `json:"limit"`
	Offset          int    `json:"offset"`
}

// jobPage is cron.list's answer, and all pages joined.
type jobPage struct {
	Jobs             []json.RawMessage          `json:"jobs"`
	SnapshotRevision string                     `json:"snapshotRevision"`
	Total            int                        `json:"total"`
	Offset           int                        `json:"offset"`
	Limit            int                        `json:"limit"`
	HasMore          bool                       `json:"hasMore"`
	NextOffset       *int                       `json:"nextOffset"`
	Previews         map[string]deliveryPreview `json:"deliveryPreviews"`
}

var errListChanged = errors.New("the list changed between two pages")

// collectJobs reads every page of one inventory: pages of two different ones
// would miss a job or show one twice.
func (a *app) collectJobs(ctx context.Context, params listParams) (jobPage, error) {
	for range 1 + maxListRestarts {
		list, err := a.collectOnce(ctx, params)
		if !errors.Is(err, errListChanged) {
			return list, err
		}
	}
	return jobPage{}, &failure{Exit: exitConflict, Code: "inventory_changed",
		Message: "inventory changed repeatedly while it was read", Hint: "try again when fewer jobs change"}
}

func (a *app) collectOnce(ctx context.Context, params listParams) (jobPage, error) {
	var list jobPage
	for range maxListPages {
		var page jobPage
		if err := a.call(ctx, "cron.list", params, &page); err != nil {
			return jobPage{}, err
		}
		if list.SnapshotRevision == "" {
			list = page
		} else {
			if page.SnapshotRevision != list.SnapshotRevision || page.Total != list.Total {
				return jobPage{}, errListChanged
			}
			list.Jobs = append(list.Jobs, page.Jobs...)
			for id, p := range page.Previews {
				list.Previews[id] = p
			}
		}
		if !page.HasMore || page.NextOffset == nil {
			list.Offset, list.HasMore, list.NextOffset = 0, false, nil
			return list, nil
		}
		params.Offset = *page.NextOffset
	}
	return jobPage{}, &failure{Exit: exitFailed, Code: "too_many_jobs", Message: "there are more jobs than 50 pages hold",
		Hint: "narrow the list with --agent"}
}

func viewOf(raw json.RawMessage) (jobView, error) {
	var j jobView
	err := json.Unmarshal(raw, &j)
	return j, err
}

// withStatus is the job as it came, and its status word.
func withStatus(raw json.RawMessage) (json.RawMessage, error) {
	j, err := viewOf(raw)
	if err != nil {
		return nil, err
	}
	word, err := job.Encode(j.status())
	if err != nil {
		return nil, err
	}
	return job.Set(raw, job.Member{Key: "status", Value: word})
}

func (a *app) printList(list jobPage) error {
	for i, raw := range list.Jobs {
		row, err := withStatus(raw)
		if err != nil {
			return err
		}
		list.Jobs[i] = row
	}
	if list.Jobs == nil {
		list.Jobs = []json.RawMessage{}
	}
	if list.Previews == nil {
		list.Previews = map[string]deliveryPreview{}
	}
	a.printJSON(list)
	return nil
}

var listColumns = []column{
	{"ID", 36}, {"Declaration", 24}, {"Name", 24}, {"Schedule", 32}, {"Next", 10}, {"Last", 10},
	{"Status", 19}, {"Target", 9}, {"Delivery", 64}, {"Agent ID", 10}, {"Owner", 24}, {"Model", 20},
}

// statusColumn is where colour goes.
const statusColumn = 6

func (a *app) printJobTable(list jobPage, nowMs int64) error {
	colored, err := a.colored()
	if err != nil {
		return err
	}
	if len(list.Jobs) == 0 {
		a.printText("No automations.\n")
		return nil
	}
	titles := make([]string, len(listColumns))
	for i, c := range listColumns {
		titles[i] = c.Title
	}
	a.printText(tableRow(listColumns, titles, nil))
	for _, raw := range list.Jobs {
		j, err := viewOf(raw)
		if err != nil {
			return err
		}
		var paint func(int, string) string
		if colored {
			paint = paintStatus(j.status())
		}
		a.printText(tableRow(listColumns, jobCells(&j, list.Previews[j.ID], nowMs), paint))
	}
	return nil
}

func jobCells(j *jobView, preview deliveryPreview, nowMs int64) []string {
	name, owner, agent := j.Name, j.Owner.SessionKey, "unresolved"
	if j.DisplayName != "" {
		name = j.DisplayName
	}
	if owner == "" {
		owner = j.Owner.AgentID
	}
	if j.EffectiveAgent != nil && *j.EffectiveAgent != "" {
		agent = *j.EffectiveAgent
	}
	return []string{j.ID, dash(j.DeclarationKey), name, j.scheduleText(), j.next(nowMs), j.last(nowMs),
		j.decoratedStatus(), dash(j.SessionTarget), preview.String(), agent, dash(owner), dash(j.Payload.Model)}
}

// paintStatus colours the status cell: red for what wants a look, green for
// what is well, dim for what is off.
func paintStatus(word string) func(int, string) string {
	colors := map[string]string{"error": "\x1b[31m", "ok": "\x1b[32m", "skipped": "\x1b[33m", "running": "\x1b[36m", "disabled": "\x1b[2m"}
	color, ok := colors[word]
	if !ok {
		return nil
	}
	return func(i int, padded string) string {
		if i != statusColumn {
			return padded
		}
		return color + padded + "\x1b[0m"
	}
}
