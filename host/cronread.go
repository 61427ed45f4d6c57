package host

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// Bounds of a history page. maxPageBytes leaves a reply line below what
// clients read; a page that would pass it is cut and says where to go on.
const (
	defaultRunsLimit = 50
	maxPageRows      = 200
	maxPageBytes     = 4 << 20
)

type cronStatus struct {
	Enabled bool `json:"enabled"`
	// TriggersEnabled says whether condition triggers are evaluated: this
	// build has none, and says so rather than what the configuration allows.
	TriggersEnabled bool   `json:"triggersEnabled"`
	StorePath       string `json:"storePath"`
	Storage         string `json:"storage"`
	SQLitePath      string `json:"sqlitePath"`
	Jobs            int    `json:"jobs"`
	NextWakeAtMs    *int64 `json:"nextWakeAtMs"`
	Durability      string `json:"durability,omitempty"`
}

func (h *Host) cronStatus(_ context.Context, p params) (any, error) {
	if err := p.only(); err != nil {
		return nil, err
	}
	snap := h.opts.Worker.Snapshot()
	s := cronStatus{Enabled: snap.Cron, StorePath: h.opts.DBPath, Storage: "sqlite", SQLitePath: h.opts.DBPath,
		Jobs: snap.Len(), Durability: h.opts.Durability}
	if atMs, ok := snap.NextWakeMs(); ok {
		s.NextWakeAtMs = &atMs
	}
	return s, nil
}

func (h *Host) cronList(_ context.Context, p params) (any, error) {
	list, err := job.DecodeListParams(p.raw)
	if err != nil {
		return nil, err
	}
	page, snap := h.listing.page(h.opts.Worker, list)
	return page.Render(rowsOf(snap), &h.listing.sheets)
}

// rowsOf finds the rows of a snapshot.
func rowsOf(snap *worker.Snapshot) func(id string) (job.Row, bool) {
	return func(id string) (job.Row, bool) {
		j, ok := snap.Job(id)
		if !ok {
			return job.Row{}, false
		}
		return row(j), true
	}
}

// briefs are the jobs of a snapshot that are listed, in id order.
func briefs(snap *worker.Snapshot) iter.Seq[job.Brief] {
	return func(yield func(job.Brief) bool) {
		for j := range snap.Jobs() {
			if b, ok := briefOf(j); ok && !yield(b) {
				return
			}
		}
	}
}

// briefOf is what a list needs of a job; ok is false when it is not listed. What a
// job that is set aside says of itself is in its bytes alone.
func briefOf(j *worker.Job) (b job.Brief, ok bool) {
	if j.SetAside != "" {
		return job.BriefOf(row(j))
	}
	b = job.Brief{ID: j.ID, Name: j.Name, Enabled: j.Enabled, UpdatedAtMs: writtenAt(j)}
	if nextMs, has := j.NextRunMs(); has {
		b.NextRunAtMs = nextMs
	}
	return b, true
}

func (h *Host) cronGet(_ context.Context, p params) (any, error) {
	if err := p.only("id", "jobId"); err != nil {
		return nil, err
	}
	id, err := p.id()
	if err != nil {
		return nil, err
	}
	j, ok := h.opts.Worker.Snapshot().Job(id)
	if !ok {
		return nil, notFound(p.method, id)
	}
	return job.View(row(j))
}

// row is what the views read of a job.
func row(j *worker.Job) job.Row {
	return job.Row{ID: j.ID, Definition: j.Definition, State: j.State, UpdatedAtMs: writtenAt(j), Sound: j.SetAside == ""}
}

// writtenAt is when a job was last written: a runtime write is an update too.
func writtenAt(j *worker.Job) int64 { return max(j.UpdatedMs, j.RuntimeMs) }

type runsPage struct {
	Entries    []json.RawMessage `json:"entries"`
	Total      int               `json:"total"`
	Offset     int               `json:"offset"`
	Limit      int               `json:"limit"`
	HasMore    bool              `json:"hasMore"`
	NextOffset *int              `json:"nextOffset"`
}

func (h *Host) cronRuns(ctx context.Context, p params) (any, error) {
	q, err := runsQuery(p)
	if err != nil {
		return nil, err
	}
	page, err := h.opts.Worker.Runs(ctx, q)
	if err != nil {
		return nil, err
	}
	if q.JobID != "" && !page.Known {
		return nil, notFound(p.method, q.JobID)
	}
	return cutPage(page, q.Limit), nil
}

// cutPage keeps a page below the bytes that a reply may have, and at least one entry.
func cutPage(page worker.RunsPage, limit int) runsPage {
	out := runsPage{Entries: page.Entries, Total: page.Total, Offset: min(page.Offset, page.Total), Limit: limit}
	size := 0
	for i, e := range out.Entries {
		size += len(e)
		if size > maxPageBytes && i > 0 {
			out.Entries = out.Entries[:i]
			break
		}
	}
	if out.Entries == nil {
		out.Entries = []json.RawMessage{}
	}
	if next := out.Offset + len(out.Entries); next < out.Total {
		out.HasMore, out.NextOffset = true, &next
	}
	return out
}

func runsQuery(p params) (worker.RunsQuery, error) {
	var q worker.RunsQuery
	err := p.only("scope", "id", "jobId", "runId", "agentId", "limit", "offset", "status", "statuses",
		"deliveryStatus", "deliveryStatuses", "query", "sortDir")
	if err != nil {
		return q, err
	}
	id, given, err := p.optionalID()
	if err != nil {
		return q, err
	}
	if strings.ContainsAny(id, `/\`) {
		return q, invalid(p.method, `at /id: must match pattern ^[^/\\]+$`)
	}
	scope, err := p.word("scope", "", "job", "all")
	if err != nil {
		return q, err
	}
	if (scope == "job" || scope == "" && given) && id == "" {
		return q, invalid(p.method, "missing id")
	}
	if scope != "all" {
		q.JobID = id
	}
	limit, err := p.whole("limit", 1, maxPageRows, defaultRunsLimit)
	if err != nil {
		return q, err
	}
	offset, err := p.whole("offset", 0, 1<<53-1, 0)
	if err != nil {
		return q, err
	}
	q.Limit, q.Offset = int(limit), int(min(offset, 1<<31-1))
	return q, runsFilters(p, &q)
}

// runsFilters takes the filters; the plural form of a filter wins over its
// singular.
func runsFilters(p params, q *worker.RunsQuery) error {
	status, err := p.word("status", "all", "all", "ok", "error", "skipped")
	if err != nil {
		return err
	}
	if q.Statuses, err = p.words("statuses", "ok", "error", "skipped"); err != nil {
		return err
	}
	if q.Statuses == nil && status != "all" {
		q.Statuses = []string{status}
	}
	deliveries := []string{"delivered", "not-delivered", "unknown", "not-requested"}
	delivery, err := p.word("deliveryStatus", "", deliveries...)
	if err != nil {
		return err
	}
	if q.DeliveryStatuses, err = p.words("deliveryStatuses", deliveries...); err != nil {
		return err
	}
	if q.DeliveryStatuses == nil && delivery != "" {
		q.DeliveryStatuses = []string{delivery}
	}
	if q.RunID, err = p.text("runId", 4096); err != nil {
		return err
	}
	q.RunID = strings.TrimSpace(q.RunID)
	if q.AgentID, err = p.text("agentId", 1024); err != nil {
		return err
	}
	if q.Query, err = p.text("query", 4096); err != nil {
		return err
	}
	dir, err := p.word("sortDir", "desc", "asc", "desc")
	q.Ascending = dir == "asc"
	return err
}
