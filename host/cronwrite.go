package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

func (h *Host) cronAdd(ctx context.Context, p params) (any, error) {
	added, err := h.opts.Worker.Add(ctx, worker.AddJob{ID: h.opts.NewID(), Params: p.raw})
	if err != nil {
		return nil, err
	}
	view, err := job.View(row(added.Job))
	if err != nil {
		return nil, err
	}
	preview := job.DeliveryPreview(added.Job.Definition)
	if !added.Keyed {
		members := []job.Member{{Key: "deliveryPreview", Value: preview}}
		return withMembers(view, append(members, notes(added.Notes)...))
	}
	members := []job.Member{{Key: "created", Value: json.RawMessage("true")}}
	if !added.Created {
		updated := json.RawMessage("false")
		if added.Updated {
			updated = json.RawMessage("true")
		}
		members = []job.Member{{Key: "created", Value: json.RawMessage("false")}, {Key: "updated", Value: updated}}
	}
	members = append(members, job.Member{Key: "job", Value: view}, job.Member{Key: "deliveryPreview", Value: preview})
	return withMembers(json.RawMessage("{}"), append(members, notes(added.Notes)...))
}

// withMembers is an object with members set, as JSON and not as bytes.
func withMembers(object json.RawMessage, members []job.Member) (json.RawMessage, error) {
	return job.Set(object, members...)
}

// notes are what bites: rota's own member of an answer, there only when there
// is something to say.
func notes(list []string) []job.Member {
	if len(list) == 0 {
		return nil
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil
	}
	return []job.Member{{Key: "notes", Value: raw}}
}

func (h *Host) cronUpdate(ctx context.Context, p params) (any, error) {
	if err := p.only("id", "jobId", "patch", "expectedConfigRevision", "stop", "reason"); err != nil {
		return nil, err
	}
	c, err := updateCommand(p)
	if err != nil {
		return nil, err
	}
	j, err := h.opts.Worker.Update(ctx, c)
	if err != nil {
		return nil, missing(p.method, c.ID, err)
	}
	return job.View(row(j))
}

// updateCommand reads cron.update. stop and reason are rota's own: they go
// with a disable.
func updateCommand(p params) (c worker.UpdateJob, err error) {
	if c.ID, err = p.id(); err != nil {
		return c, err
	}
	patch, ok := p.members["patch"]
	if !ok {
		return c, invalid(p.method, "must have required property 'patch'")
	}
	if len(patch) == 0 || patch[0] != '{' {
		return c, invalid(p.method, "at /patch: must be object")
	}
	c.Patch = patch
	if c.ExpectedRevision, err = p.text("expectedConfigRevision", 128); err != nil {
		return c, err
	}
	if _, given := p.members["expectedConfigRevision"]; given && c.ExpectedRevision == "" {
		return c, invalid(p.method, "at /expectedConfigRevision: must not have fewer than 1 characters")
	}
	if c.Stop, err = p.flag("stop"); err != nil {
		return c, err
	}
	c.Reason, err = p.text("reason", 1000)
	return c, err
}

type removed struct {
	OK             bool   `json:"ok"`
	Removed        bool   `json:"removed"`
	SessionCleanup string `json:"sessionCleanup,omitempty"`
}

func (h *Host) cronRemove(ctx context.Context, p params) (any, error) {
	if err := p.only("id", "jobId"); err != nil {
		return nil, err
	}
	id, err := p.id()
	if err != nil {
		return nil, err
	}
	answer, err := h.opts.Worker.Remove(ctx, worker.RemoveJob{ID: id})
	if err != nil {
		return nil, missing(p.method, id, err)
	}
	out := removed{OK: true, Removed: true}
	if answer.CleanupPending {
		out.SessionCleanup = "pending"
	}
	return out, nil
}

type enqueued struct {
	OK                bool   `json:"ok"`
	Enqueued          bool   `json:"enqueued"`
	RunID             string `json:"runId"`
	ProcessInstanceID string `json:"processInstanceId"`
}

type notRun struct {
	OK                bool   `json:"ok"`
	Ran               bool   `json:"ran"`
	Reason            string `json:"reason"`
	OpenRunID         string `json:"openRunId,omitempty"`
	ProcessInstanceID string `json:"processInstanceId"`
}

func (h *Host) cronRun(ctx context.Context, p params) (any, error) {
	if err := p.only("id", "jobId", "mode", "expectedProcessInstanceId", "requestKey"); err != nil {
		return nil, err
	}
	id, err := p.id()
	if err != nil {
		return nil, err
	}
	mode, err := p.word("mode", "force", "due", "force", "if-enabled")
	if err != nil {
		return nil, err
	}
	instance, err := p.text("expectedProcessInstanceId", 256)
	if err != nil {
		return nil, err
	}
	if _, given := p.members["expectedProcessInstanceId"]; given && instance != h.opts.InstanceID {
		return nil, invalid(p.method, "Gateway process changed after preflight")
	}
	key, err := p.text("requestKey", 200)
	if err != nil {
		return nil, err
	}
	_, given := p.members["requestKey"]
	switch {
	case given && key == "":
		return nil, invalid(p.method, "at /requestKey: must not have fewer than 1 characters")
	case !given:
		key = h.opts.NewID()
	}
	answer, err := h.opts.Worker.RunNow(ctx, worker.RunJob{ID: id, Mode: mode, Key: key, Given: given})
	if err != nil {
		return nil, missing(p.method, id, err)
	}
	if answer.Reason != "" {
		return notRun{OK: true, Reason: answer.Reason, OpenRunID: answer.OpenRunID, ProcessInstanceID: h.opts.InstanceID}, nil
	}
	return enqueued{OK: true, Enqueued: true, RunID: answer.RunID, ProcessInstanceID: h.opts.InstanceID}, nil
}

// missing gives the wire's own wording to a job that the worker did not find.
func missing(method, id string, err error) error {
	var refusal *job.Error
	if errors.As(err, &refusal) && refusal.Code == job.CodeNotFound {
		return notFound(method, id)
	}
	return err
}
