package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rota-scheduler/rota/store/rawjson"
	"github.com/rota-scheduler/rota/worker/job"
)

// applyJobs applies a jobs file inside one savepoint: all of it or nothing.
func (t *turn) applyJobs(c ApplyJobs) (Applied, error) {
	var answer Applied
	seen := map[string]bool{}
	for i, params := range c.Jobs {
		key, params, err := fileKey(c.IDs[i], params, t.env())
		if err == nil && seen[key] {
			err = &job.Error{Code: job.CodeInvalid, Message: fmt.Sprintf("two jobs of the file are declared as %q", key),
				Hint: "give each job its own name or declarationKey"}
		}
		var added Added
		if err == nil {
			seen[key] = true
			added, err = t.addJob(AddJob{ID: c.IDs[i], Params: params})
		}
		if job.InThePast(err) {
			answer.Notes = append(answer.Notes, key+": left out, its time has passed")
			continue
		}
		if err != nil {
			return Applied{}, atJob(err, c.Source, i)
		}
		answer.count(added)
	}
	for k := range t.st.named.From(nameKey{declarationKey: filePrefix}) {
		if !strings.HasPrefix(k.declarationKey, filePrefix) {
			break
		}
		if j, ok := t.st.jobs.Get(k.jobID); ok && !seen[k.declarationKey] {
			answer.Left = append(answer.Left, j.Name)
		}
	}
	return answer, nil
}

// filePrefix begins the declaration keys that a jobs file gives by itself.
const filePrefix = "file:"

// fileKey is the key under which a job of a file is found again: its own, or
// one made from its name.
func fileKey(id string, params json.RawMessage, env job.Env) (string, json.RawMessage, error) {
	if key := declaredAs(params); key != "" {
		return key, params, nil
	}
	var p struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(params, &p); err != nil || strings.TrimSpace(p.Name) == "" {
		created, err := job.Create(id, params, env)
		if err != nil {
			return "", nil, err
		}
		def, err := job.Decode(created.Definition)
		if err != nil {
			return "", nil, err
		}
		p.Name = def.Name
	}
	key := filePrefix + strings.TrimSpace(p.Name)
	raw, err := rawjson.Encode(key)
	if err != nil {
		return "", nil, err
	}
	params, err = rawjson.Set(params, rawjson.Member{Key: "declarationKey", Value: raw})
	return key, params, err
}

// atJob says in which job of a file a refusal lies.
func atJob(err error, source string, index int) error {
	var refusal *job.Error
	if !errors.As(err, &refusal) {
		return err
	}
	at := *refusal
	at.Field = fmt.Sprintf("/jobs/%d%s", index, refusal.Field)
	at.Op = source
	return &at
}

func (a *Applied) count(added Added) {
	switch {
	case added.Created:
		a.Created++
	case added.Updated:
		a.Updated++
	default:
		a.Unchanged++
	}
	if added.Created {
		for _, note := range added.Notes {
			a.Notes = append(a.Notes, added.Job.Name+": "+note)
		}
	}
}
