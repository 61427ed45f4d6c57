package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/host"
)

func newCronShowCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID|NAME",
		Short: "Show one job, by id or exact name",
		Args:  argsBetween(1, 1, "one job id or name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := a.findJob(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				if raw, err = withStatus(raw); err != nil {
					return err
				}
				a.printJSON(raw)
				return nil
			}
			j, err := viewOf(raw)
			if err != nil {
				return err
			}
			preview, err := a.previewOf(cmd.Context(), j.ID)
			if err != nil {
				return err
			}
			text := showLines(&j, preview, time.Now().UnixMilli())
			for _, line := range ownLines(raw) {
				text += escapeText(line) + "\n"
			}
			a.printText(text)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// findJob takes an id, or failing that an exact name of one job.
func (a *app) findJob(ctx context.Context, word string) (json.RawMessage, error) {
	raw, err := a.callRaw(ctx, "cron.get", idParams{word})
	var wire *host.WireError
	if err == nil || !errors.As(err, &wire) || wire.Detail("code") != host.DetailJobNotFound {
		return raw, err
	}
	list, listErr := a.collectJobs(ctx, listParams{IncludeDisabled: true, Query: word, Limit: listPageRows})
	if listErr != nil {
		return nil, listErr
	}
	var matches []match
	for _, row := range list.Jobs {
		j, viewErr := viewOf(row)
		if viewErr != nil {
			return nil, viewErr
		}
		if j.Name == word {
			matches = append(matches, match{ID: j.ID, Name: j.Name, Schedule: j.scheduleText(), Enabled: j.Enabled, Status: j.status()})
		}
	}
	switch len(matches) {
	case 0:
		return nil, err
	case 1:
		return a.callRaw(ctx, "cron.get", idParams{matches[0].ID})
	}
	return nil, &failure{Exit: exitConflict, Code: "ambiguous", Matches: matches,
		Message: fmt.Sprintf("%d jobs are named %q", len(matches), word), Hint: "show one of them by its id"}
}

// previewOf is where a job's results go. Only a list tells; its query finds
// the one row.
func (a *app) previewOf(ctx context.Context, id string) (deliveryPreview, error) {
	list, err := a.collectJobs(ctx, listParams{IncludeDisabled: true, Query: id, Limit: listPageRows})
	return list.Previews[id], err
}

// showLines are the lines of a job, in their fixed order.
func showLines(j *jobView, preview deliveryPreview, nowMs int64) string {
	var b strings.Builder
	line := func(label, text string) { fmt.Fprintf(&b, "%s: %s\n", label, escapeText(dash(text))) }
	line("id", j.ID)
	line("declaration", j.DeclarationKey)
	line("name", j.Name)
	line("display name", j.DisplayName)
	line("owner agent", j.Owner.AgentID)
	line("owner session", j.Owner.SessionKey)
	line("enabled", enabledText(j))
	line("schedule", j.scheduleText())
	if j.Schedule.Kind == "stream" {
		line("stream status", j.State.StreamStatus)
		line("stream error", j.State.StreamError)
	}
	trigger := ""
	if j.hasTrigger() {
		trigger = "yes"
	}
	line("trigger", trigger)
	line("session", j.SessionTarget)
	line("agent", j.AgentID)
	line("model", j.Payload.Model)
	line("delivery", preview.String())
	line("next", withLocal(j.next(nowMs), j.State.NextRunAtMs))
	line("last", withLocal(j.last(nowMs), j.State.LastRunAtMs))
	line("status", j.decoratedStatus())
	line("last error", j.State.LastError)
	line("last delivery", j.State.DeliveryStatus)
	line("last delivery suppression", j.State.Suppression)
	line("last delivery error", j.State.DeliveryError)
	line("diagnostic", j.State.LastDiagnostic)
	return b.String()
}

func enabledText(j *jobView) string {
	switch {
	case j.Enabled:
		return "yes"
	case j.DisabledReason != "":
		return "no (" + j.DisabledReason + ")"
	}
	return "no"
}

// withLocal adds the instant itself to a rough distance.
func withLocal(rough string, atMs *int64) string {
	if rough == "-" || atMs == nil {
		return rough
	}
	return rough + " (" + localTime(*atMs) + ")"
}
