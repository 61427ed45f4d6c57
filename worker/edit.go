package worker

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/rawjson"
	"github.com/rota-scheduler/rota/worker/job"
)

func (t *turn) env() job.Env {
	return job.Env{NowMs: t.now, HostZone: t.cfg.Zone, DST: t.cfg.DST, ErrorBackoffMs: t.cfg.ErrorBackoffMs,
		RetryOn: t.cfg.RetryOn, RetryMax: t.cfg.RetryMax, RetryBackoffMs: t.cfg.RetryBackoffMs, DisableFailures: t.cfg.DisableFailures}
}

// addJob creates a job, or converges the declared one.
func (t *turn) addJob(c AddJob) (Added, error) {
	if key := declaredAs(c.Params); key != "" {
		declared, err := t.declared(key)
		if err != nil {
			return Added{}, err
		}
		if declared != nil {
			return t.converge(declared, c.Params)
		}
	}
	created, err := job.Create(c.ID, c.Params, t.env())
	if err != nil {
		return Added{}, err
	}
	j := newJob(store.JobRow{JobID: c.ID, Definition: created.Definition, State: json.RawMessage("{}"),
		SortOrder: t.st.nextSort, UpdatedAtMs: t.now}, t.cfg.DST, t.cfg.Zone)
	if j.SetAside != "" {
		return Added{}, refuse(job.CodeInvalid, "cron.add", j.SetAside, "")
	}
	if j, err = t.withFirstDeadline(j); err != nil {
		return Added{}, err
	}
	if j.rowID, err = store.InsertJob(t.tx, j.row()); err != nil {
		return Added{}, err
	}
	t.st.nextSort++
	j = t.putJob(j)
	if err := t.emit(Event{Kind: EventJobAdded, JobID: j.ID}); err != nil {
		return Added{}, err
	}
	return Added{Job: j, Keyed: j.keyed, Created: true, Notes: created.Notes}, nil
}

// declaredAs is the declaration key of cron.add parameters, "" when there is
// none that could name a job. Create judges its form.
func declaredAs(params json.RawMessage) string {
	var p struct {
		DeclarationKey string `json:"declarationKey"`
	}
	if json.Unmarshal(params, &p) != nil {
		return ""
	}
	return strings.TrimSpace(p.DeclarationKey)
}

// withFirstDeadline gives a new job its deadline before it has a row.
func (t *turn) withFirstDeadline(j *Job) (*Job, error) {
	next, ok := j.naturalNext(t.now)
	if !ok || !j.Enabled {
		return j, nil
	}
	is := *j.state()
	is.NextRunAtMs = store.Some(next)
	return j.withState(is)
}

// declared finds the job with a declaration key, nil when there is none.
func (t *turn) declared(key string) (*Job, error) {
	var found []string
	for k := range t.st.named.From(nameKey{declarationKey: key}) {
		if k.declarationKey != key {
			break
		}
		found = append(found, k.jobID)
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		j, _ := t.st.jobs.Get(found[0])
		return j, nil
	}
	return nil, refuse(job.CodeConflict, "cron.add",
		fmt.Sprintf("declaration key %q is ambiguous: jobs %s and %s carry it", key, found[0], found[1]),
		"remove one of them: rota cron rm "+found[1])
}

func (t *turn) converge(j *Job, params json.RawMessage) (Added, error) {
	change, err := job.Converge(j.Definition, params, t.env())
	if err != nil {
		return Added{}, err
	}
	if change.Changed {
		if j, err = t.define(j, change, ""); err != nil {
			return Added{}, err
		}
	}
	return Added{Job: j, Keyed: true, Updated: change.Changed, Notes: change.Notes}, nil
}

// updateJob patches a job. An empty patch succeeds and counts as a write.
func (t *turn) updateJob(c UpdateJob) (*Job, error) {
	j, err := t.find("cron.update", c.ID)
	if err != nil {
		return nil, err
	}
	if err := checkRevision(j, c.ExpectedRevision); err != nil {
		return nil, err
	}
	change, err := job.Merge(j.Definition, c.Patch, t.env())
	if err != nil {
		return nil, err
	}
	if j, err = t.define(j, change, c.Reason); err != nil {
		return nil, err
	}
	if r, ok := t.st.open.Get(j.ID); ok && c.Stop && r.Phase != PhaseRequested {
		stop := Cancel{Reason: "stopped", Message: "stopped by an operator who disabled the job"}
		if err := t.step(r, InStopped, &circumstance{cancel: stop}); err != nil {
			return nil, err
		}
	}
	j, _ = t.st.jobs.Get(j.ID)
	return j, nil
}

func (t *turn) find(op, id string) (*Job, error) {
	j, ok := t.st.jobs.Get(id)
	if !ok {
		details, err := rawjson.Encode(map[string]string{"code": "CRON_JOB_NOT_FOUND", "jobId": id})
		if err != nil {
			return nil, err
		}
		return nil, &job.Error{Code: job.CodeNotFound, Op: op, Message: "Automation not found: " + id + ".",
			Hint: "rota cron list --all shows the ids", Details: details}
	}
	return j, nil
}

func checkRevision(j *Job, expected string) error {
	actual := job.WireRevision(j.Definition)
	if expected == "" || expected == actual {
		return nil
	}
	details, err := rawjson.Encode(map[string]string{"code": "CRON_JOB_CHANGED", "expectedConfigRevision": expected, "actualConfigRevision": actual})
	if err != nil {
		return err
	}
	return &job.Error{Code: job.CodeChanged, Op: "cron.update", Details: details,
		Message: "cron job definition no longer matches the loaded version; review the latest version before retrying",
		Hint:    "read it again with rota cron get " + j.ID}
}

// define writes a changed definition and lets the change act on the job's
// deadline and on its open run.
func (t *turn) define(was *Job, change job.Change, reason string) (*Job, error) {
	if err := t.disarm(was.ID); err != nil {
		return nil, err
	}
	var err error
	if was.Enabled && change.Scheduling {
		if was, err = t.passWait(was); err != nil { // by the old schedule
			return nil, err
		}
	}
	row := was.row()
	row.Definition, row.UpdatedAtMs = change.Definition, t.now
	if reason != "" {
		raw, err := rawjson.Encode(reason)
		if err != nil {
			return nil, err
		}
		if row.Definition, err = rawjson.Set(row.Definition, rawjson.Member{Key: "disabledReason", Value: raw}); err != nil {
			return nil, err
		}
	}
	j := newJob(row, t.cfg.DST, t.cfg.Zone)
	if j.SetAside != "" {
		return nil, refuse(job.CodeInvalid, "cron.update", j.SetAside, "")
	}
	j.plan, j.retry, j.RuntimeMs = was.plan, was.retry, 0
	if change.Schedule && j.retry != nil {
		if err := store.DeleteRetry(t.tx, j.ID); err != nil {
			return nil, err
		}
		j.retry = nil
	}
	if change.Scheduling {
		if j, err = t.reschedule(was, j, change); err != nil {
			return nil, err
		}
	}
	if err := t.neverAgain(j); change.Enabled && err != nil {
		return nil, err
	}
	if change.StatePatch != nil {
		if j, err = withStatePatch(j, change.StatePatch); err != nil {
			return nil, err
		}
	}
	if err := store.UpdateDefinition(t.tx, j.row()); err != nil {
		return nil, err
	}
	t.wrote = true
	j = t.putJob(j)
	if err := t.dropStaleRetry(j); err != nil {
		return nil, err
	}
	if err := t.emit(Event{Kind: EventJobUpdated, JobID: j.ID}); err != nil {
		return nil, err
	}
	if r, ok := t.st.open.Get(j.ID); ok {
		if err := t.step(r, inputOf(change), nil); err != nil {
			return nil, err
		}
		if change.Disabled && change.Schedule && r.Phase != PhaseRequested { // both are the newer word
			if r, ok = t.st.open.Get(j.ID); ok {
				if err := t.step(r, InRescheduled, nil); err != nil {
					return nil, err
				}
			}
		}
	}
	j, _ = t.st.jobs.Get(j.ID)
	return j, nil
}

// neverAgain refuses to enable a one-shot whose only slot is behind a good run:
// it would wait for nothing.
func (t *turn) neverAgain(j *Job) error {
	_, has := j.NextRunMs()
	r, open := t.st.open.Get(j.ID)
	if has || open && (r.timed() || r.Mode == "due") || !j.timedOneShot() || !j.Enabled {
		return nil // the run of its slot decides what becomes of it
	}
	return refuse(job.CodeConflict, "cron.update", "this one-shot has run, and its time does not come again",
		"give it another time: rota cron edit "+j.ID+" --at TIME --enable")
}

// inputOf is what a change of the definition means to the job's open run.
func inputOf(c job.Change) Input {
	switch {
	case c.Disabled:
		return InDisabled
	case c.Schedule:
		return InRescheduled
	}
	return InEdited
}

// withStatePatch applies the writable part of a state patch.
func withStatePatch(j *Job, patch json.RawMessage) (*Job, error) {
	var edits []rawjson.Member
	for key, value := range rawjson.Members(patch) {
		if string(value) == "null" {
			value = nil
		}
		edits = append(edits, rawjson.Member{Key: key, Value: value})
	}
	raw, err := rawjson.Set(j.State, edits...)
	if err != nil {
		return nil, err
	}
	is, err := store.DecodeState(raw)
	if err != nil {
		return nil, err
	}
	next := *j
	next.hold(raw, is)
	return &next, nil
}

// removeJob removes a job. Its active run is asked to end and is recorded when
// it has; history and receipts stay.
func (t *turn) removeJob(c RemoveJob) (Removed, error) {
	j, err := t.find("cron.remove", c.ID)
	if err != nil {
		return Removed{}, err
	}
	if err := t.disarm(j.ID); err != nil {
		return Removed{}, err
	}
	var answer Removed
	if j.Enabled {
		if j, err = t.passWait(j); err != nil { // what it waited over is told before it goes
			return Removed{}, err
		}
	}
	r, open := t.st.open.Get(j.ID)
	if open && r.Phase == PhaseRequested {
		if err := t.step(r, InRemoved, nil); err != nil {
			return Removed{}, err
		}
		if j, err = t.find("cron.remove", c.ID); err != nil {
			return Removed{}, err
		}
	}
	if err := t.deleteJob(j); err != nil {
		return Removed{}, err
	}
	if open && r.Phase != PhaseRequested {
		answer.CleanupPending = true
		gone := *r
		gone.Gone = j.gone()
		t.putRun(&gone)
		ended := Cancel{Reason: "removed", Message: "the job was removed while it ran"}
		if err := t.step(&gone, InRemoved, &circumstance{cancel: ended}); err != nil {
			return Removed{}, err
		}
	}
	return answer, nil
}

// deleteJob deletes the row and all that is only about the job's future.
func (t *turn) deleteJob(j *Job) error {
	if err := store.DeletePlan(t.tx, j.ID, 0); err != nil {
		return err
	}
	if err := store.DeleteRetry(t.tx, j.ID); err != nil {
		return err
	}
	if err := store.DeleteJob(t.tx, j.ID); err != nil {
		return err
	}
	t.dropJob(j)
	return t.emit(Event{Kind: EventJobRemoved, JobID: j.ID, Job: j})
}

// turnOff disables a job as the end of a run does: a runtime write that keeps
// every other byte of the definition.
func (t *turn) turnOff(j *Job) error {
	definition, err := rawjson.Set(j.Definition, rawjson.Member{Key: "enabled", Value: json.RawMessage("false")})
	if err != nil {
		return err
	}
	j, err = t.editState(j, func(s *store.State) {
		s.NextRunAtMs, s.StartupCatchupAtMs = store.Int{}, store.Int{}
	})
	if err != nil {
		return err
	}
	next := *j
	next.Definition, next.Enabled, next.kept = definition, false, nil
	t.putJob(&next)
	t.wrote = true
	if err := store.UpdateEnabled(t.tx, next.row(), t.now); err != nil {
		return err
	}
	if err := t.emit(Event{Kind: EventJobUpdated, JobID: j.ID}); err != nil {
		return err
	}
	// A manual run that waits for a job that is enabled has nothing to wait for.
	if r, ok := t.st.open.Get(j.ID); ok && r.Phase == PhaseRequested && r.Mode != "force" {
		return t.step(r, InDisabled, nil)
	}
	return nil
}
