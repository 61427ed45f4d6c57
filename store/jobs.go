package store

import (
	"encoding/json"
	"strings"
)

// JobRow is one row of cron_jobs. The JSON columns are the truth; the copies
// beside them are written from it and read by nobody here.
type JobRow struct {
	RowID             int64 // its place, while the file is open; given by InsertJob and EachJob
	JobID             string
	Definition        json.RawMessage // job_json
	State             json.RawMessage // state_json
	SortOrder         int64
	UpdatedAtMs       int64 // definition write time
	RuntimeUpdatedMs  int64 // last runtime write; 0 = never
	ScheduleIdentity  string
	DefinitionColumns // copies of parts of the definition
}

// DefinitionColumns are the columns that copy parts of the definition.
type DefinitionColumns struct {
	Name           string
	Enabled        bool
	PayloadKind    string
	DeclarationKey string
	OwnerAgentID   string
	AgentID        string
	Description    string
}

// EachJob reads every job of the partition, in the order in which the file has
// them: it is read from its start to its end, which no index allows. Of the
// copies beside the JSON it gives those that a row which cannot be read is
// shown by.
func EachJob(t *Tx, f func(JobRow) error) error {
	var r JobRow
	var definition, state string
	var names pack
	var definitions, states packRaw
	return t.Query(`SELECT rowid, job_id, job_json, state_json, sort_order, updated_at,
		coalesce(runtime_updated_at_ms, 0), name, enabled FROM cron_jobs NOT INDEXED WHERE store_key = ?`, []any{t.StoreKey()},
		func(scan func(...any) error) error {
			if err := scan(&r.RowID, &r.JobID, &definition, &state, &r.SortOrder, &r.UpdatedAtMs,
				&r.RuntimeUpdatedMs, &r.Name, &r.Enabled); err != nil {
				return err
			}
			r.JobID, r.Name = names.put(r.JobID), names.put(r.Name)
			r.Definition, r.State = definitions.put(definition), states.put(state)
			return f(r)
		})
}

// pack lays what is kept of many rows end to end, which wastes less memory than a
// place for each. A block lives as long as the last of its texts: texts that last
// differently have blocks of their own.
type pack struct{ block strings.Builder }

const packBytes = 64 << 10

func (p *pack) put(text string) string {
	if len(text) > packBytes/8 {
		return text
	}
	if p.block.Len()+len(text) > p.block.Cap() {
		p.block = strings.Builder{}
		p.block.Grow(packBytes)
	}
	from := p.block.Len()
	p.block.WriteString(text)
	return p.block.String()[from:]
}

// packRaw is pack for texts that are kept as bytes.
type packRaw struct{ block []byte }

func (p *packRaw) put(text string) json.RawMessage {
	if len(text) > packBytes/8 {
		return json.RawMessage(text)
	}
	if len(p.block)+len(text) > cap(p.block) {
		p.block = make([]byte, 0, packBytes)
	}
	from := len(p.block)
	p.block = append(p.block, text...)
	return json.RawMessage(p.block[from:len(p.block):len(p.block)])
}

// InsertJob adds a job and gives its place. An id that exists is a constraint error.
func InsertJob(t *Tx, r JobRow) (rowID int64, err error) {
	_, err = t.Exec(`INSERT INTO cron_jobs (store_key, job_id, declaration_key, owner_agent_id, name,
		description, enabled, agent_id, payload_kind, job_json, state_json, schedule_identity, sort_order, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.StoreKey(), r.JobID, orNull(r.DeclarationKey), orNull(r.OwnerAgentID), r.Name,
		orNull(r.Description), r.Enabled, orNull(r.AgentID), r.PayloadKind,
		string(r.Definition), string(r.State), orNull(r.ScheduleIdentity), r.SortOrder, r.UpdatedAtMs)
	if err != nil {
		return 0, err
	}
	rowID = t.s.session.conn.lastRowID
	return rowID, distrustGrant(t, r.JobID)
}

// UpdateDefinition writes a changed definition with its copies and state. It
// is an UPDATE because replacing the row would cascade into permission rows.
func UpdateDefinition(t *Tx, r JobRow) error {
	_, err := t.Exec(`UPDATE cron_jobs SET declaration_key = ?, owner_agent_id = ?, name = ?, description = ?,
		enabled = ?, agent_id = ?, payload_kind = ?, job_json = ?, state_json = ?, schedule_identity = ?,
		runtime_updated_at_ms = CASE WHEN runtime_updated_at_ms > ? THEN runtime_updated_at_ms ELSE NULL END,
		updated_at = ?
		WHERE store_key = ? AND job_id = ?`,
		orNull(r.DeclarationKey), orNull(r.OwnerAgentID), r.Name, orNull(r.Description),
		r.Enabled, orNull(r.AgentID), r.PayloadKind, string(r.Definition), string(r.State), orNull(r.ScheduleIdentity),
		r.UpdatedAtMs, r.UpdatedAtMs, t.StoreKey(), r.JobID)
	if err != nil {
		return err
	}
	return distrustGrant(t, r.JobID)
}

// distrustGrant tells the owner of the permission columns, where they exist,
// that someone else wrote the definition: the hash is unknown and the
// generation grows past every grant given so far.
func distrustGrant(t *Tx, jobID string) error {
	if !t.Shape().GrantColumns {
		return nil
	}
	_, err := t.Exec(`UPDATE cron_jobs SET grant_definition_revision = NULL, grant_definition_updated_at = NULL,
		grant_definition_generation = coalesce(grant_definition_generation, 0) + 1
		WHERE store_key = ? AND job_id = ?`, t.StoreKey(), jobID)
	return err
}

// UpdateState is the runtime write: state alone. It finds the row by its place,
// because a busy turn does little else.
func UpdateState(t *Tx, rowID int64, state json.RawMessage, atMs int64) error {
	_, err := t.Exec(`UPDATE cron_jobs SET state_json = CAST(? AS TEXT), runtime_updated_at_ms = ?
		WHERE rowid = ?`, []byte(state), null(atMs), rowID)
	return err
}

// UpdateEnabled is a runtime write that also turns the job on or off, as the
// end of a one-shot does: the definition is edited, its generation is not ours
// to raise for it.
func UpdateEnabled(t *Tx, r JobRow, atMs int64) error {
	_, err := t.Exec(`UPDATE cron_jobs SET enabled = ?, job_json = ?, state_json = ?, runtime_updated_at_ms = ?,
		schedule_identity = ? WHERE store_key = ? AND job_id = ?`,
		r.Enabled, string(r.Definition), string(r.State), atMs, orNull(r.ScheduleIdentity), t.StoreKey(), r.JobID)
	return err
}

// DeleteJob removes a job and its scratch. Receipts and history stay.
func DeleteJob(t *Tx, jobID string) error {
	if _, err := t.Exec(`DELETE FROM cron_job_scratch WHERE store_key = ? AND job_id = ?`, t.StoreKey(), jobID); err != nil {
		return err
	}
	_, err := t.Exec(`DELETE FROM cron_jobs WHERE store_key = ? AND job_id = ?`, t.StoreKey(), jobID)
	return err
}

// orNull stores an empty text as NULL, which is how the tables say "unset".
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
