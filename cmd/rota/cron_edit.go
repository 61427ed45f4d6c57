package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// editFlags are the flags of edit alone.
type editFlags struct {
	job                                                                                    jobFlags
	enable, disable, stop                                                                  bool
	clearDisplayName, clearDescription, clearAgent, clearSessionKey, clearTimeout, clearTZ bool
	clearCatchUp, clearDST, noBestEffort                                                   bool
	clearRequest                                                                           clearRequest
	reason                                                                                 string
}

func newCronEditCommand(a *app) *cobra.Command {
	var f editFlags
	cmd := jsonVerb(a, &cobra.Command{
		Use:   "edit ID",
		Short: "Change a job; what no flag names stays",
		Args:  argsBetween(1, 1, "one job id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			params, err := a.editParams(cmd.Context(), &f, args[0])
			if err != nil {
				return err
			}
			return a.update(cmd.Context(), params)
		},
	})
	f.job.register(cmd.Flags())
	flags := cmd.Flags()
	flags.BoolVar(&f.enable, "enable", false, "let it fire")
	flags.BoolVar(&f.disable, "disable", false, "keep it from firing")
	flags.BoolVar(&f.stop, "stop", false, "with --disable: also abort an active run")
	flags.StringVar(&f.reason, "reason", "", "with --disable: why; kept and shown")
	flags.BoolVar(&f.clearDisplayName, "clear-display-name", false, "show the name again")
	flags.BoolVar(&f.clearDescription, "clear-description", false, "no description")
	flags.BoolVar(&f.clearAgent, "clear-agent", false, "no owning agent")
	flags.BoolVar(&f.clearSessionKey, "clear-session-key", false, "no session key")
	flags.BoolVar(&f.clearTimeout, "clear-timeout-seconds", false, "the default limit again")
	flags.BoolVar(&f.clearTZ, "clear-tz", false, "the daemon's time zone again")
	flags.BoolVar(&f.clearCatchUp, "clear-catch-up", false, "missed slots as the configuration says")
	flags.BoolVar(&f.clearDST, "clear-dst", false, "daylight saving as the configuration says")
	flags.BoolVar(&f.noBestEffort, "no-best-effort-deliver", false, "a result that cannot be sent fails the run")
	f.clearRequest.register(flags)
	return cmd
}

// editParams builds cron.update. Where a flag changes a part of something that
// goes over the wire whole, the job is read first and the update holds only
// for the job as it was read.
func (a *app) editParams(ctx context.Context, f *editFlags, id string) (updateParams, error) {
	params := updateParams{ID: id, Patch: map[string]any{}, Stop: f.stop, Reason: f.reason}
	if err := f.check(); err != nil {
		return params, err
	}
	f.job.texts(params.Patch)
	if f.enable || f.disable {
		params.Patch["enabled"] = f.enable
	}
	f.clears(params.Patch)
	policy, err := f.job.catchUpPolicy()
	if err != nil {
		return params, err
	}
	if policy != nil {
		params.Patch["catchUp"] = policy
	}
	payload, err := f.payload()
	if err != nil {
		return params, err
	}
	spec, err := f.job.newSchedule(time.Now().UnixMilli())
	if err != nil {
		return params, err
	}
	partOfSchedule := spec == nil && (f.job.anyGiven("tz", "stagger", "exact") || f.clearTZ)
	keepsZone := spec != nil && spec["kind"] == "cron" && !f.job.given("tz") && !f.clearTZ
	changesPayload := len(payload.members) > 0 && !payload.whole
	if changesPayload || partOfSchedule || keepsZone {
		old, err := a.oldJob(ctx, id)
		if err != nil {
			return params, err
		}
		params.ExpectedRevision = old.ConfigRevision
		if changesPayload {
			if err := payload.over(old.Payload.Kind); err != nil {
				return params, err
			}
		}
		if spec, err = f.mergedSchedule(spec, old.Schedule); err != nil {
			return params, err
		}
	}
	if len(payload.members) > 0 {
		params.Patch["payload"] = payload.params()
	}
	if spec != nil {
		params.Patch["schedule"] = spec
	}
	if len(params.Patch) == 0 {
		return params, usage("nothing to change: give at least one flag")
	}
	return params, nil
}

// clears puts what goes back to its default, or away.
func (f *editFlags) clears(patch map[string]any) {
	for key, clear := range map[string]bool{"displayName": f.clearDisplayName, "agentId": f.clearAgent, "sessionKey": f.clearSessionKey,
		"catchUp": f.clearCatchUp, "dst": f.clearDST} {
		if clear {
			patch[key] = nil
		}
	}
	if f.clearDescription {
		patch["description"] = ""
	}
	if f.noBestEffort {
		delivery, ok := patch["delivery"].(map[string]any)
		if !ok {
			delivery = map[string]any{}
			patch["delivery"] = delivery
		}
		delivery["bestEffort"] = false
	}
}

// payload is what the flags change of the payload.
func (f *editFlags) payload() (payloadPatch, error) {
	p, err := f.job.payload()
	if err == nil {
		err = f.clearRequest.apply(&p)
	}
	if f.clearTimeout {
		p.members["timeoutSeconds"] = nil
	}
	return p, err
}

// mergedSchedule completes a schedule from the one that the job has.
func (f *editFlags) mergedSchedule(spec map[string]any, old jobSchedule) (map[string]any, error) {
	partial := f.job.anyGiven("tz", "stagger", "exact") || f.clearTZ
	switch {
	case spec == nil && !partial:
		return nil, nil
	case spec == nil && old.Kind != "cron":
		return nil, usage("--tz, --stagger, --exact and --clear-tz need a cron schedule; the job's is %q", old.Kind)
	case spec == nil:
		spec = map[string]any{"kind": "cron", "expr": old.Expr}
		if old.StaggerMs != nil {
			spec["staggerMs"] = *old.StaggerMs
		}
	case spec["kind"] != "cron" || old.Kind != "cron":
		return spec, nil
	}
	if old.TZ != "" && !f.clearTZ {
		spec["tz"] = old.TZ
	}
	return spec, f.job.cronDetails(spec)
}

func (f *editFlags) check() error {
	both := func(a bool, b bool, names string) error {
		if a && b {
			return usage("Choose either %s, not both", names)
		}
		return nil
	}
	for _, err := range []error{
		f.job.check(),
		both(f.enable, f.disable, "--enable or --disable"),
		both(f.clearTZ, f.job.given("tz"), "--tz or --clear-tz"),
		both(f.clearAgent, f.job.given("agent"), "--agent or --clear-agent"),
		both(f.clearSessionKey, f.job.given("session-key"), "--session-key or --clear-session-key"),
		both(f.clearDisplayName, f.job.given("display-name"), "--display-name or --clear-display-name"),
		both(f.clearDescription, f.job.given("description"), "--description or --clear-description"),
		both(f.clearCatchUp, f.job.anyGiven("catch-up", "catch-up-limit", "max-lateness"), "--catch-up or --clear-catch-up"),
		both(f.clearDST, f.job.given("dst"), "--dst or --clear-dst"),
		both(f.noBestEffort, f.job.given("best-effort-deliver"), "--best-effort-deliver or --no-best-effort-deliver"),
		both(f.clearTimeout, f.job.given("timeout-seconds"), "--timeout-seconds or --clear-timeout-seconds"),
	} {
		if err != nil {
			return err
		}
	}
	if (f.stop || f.reason != "") && !f.disable {
		return usage("--stop and --reason go with --disable")
	}
	return nil
}

func (a *app) oldJob(ctx context.Context, id string) (jobView, error) {
	raw, err := a.callRaw(ctx, "cron.get", idParams{id})
	if err != nil {
		return jobView{}, err
	}
	var j jobView
	if err := json.Unmarshal(raw, &j); err != nil {
		return j, fmt.Errorf("decode job %s: %w", id, err)
	}
	return j, nil
}
