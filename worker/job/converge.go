package job

import (
	"encoding/json"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// convergedKeys are the members that a declaration replaces. The name, the
// description and everything else stay as they are; enabled is replaced only
// when the declaration says it.
var convergedKeys = []string{"displayName", "pacing", "catchUp", "dst"}

// Converge brings a job to what its declaration says, given the parameters of
// cron.add with the same declarationKey. Applying the same declaration again
// changes nothing: an interval keeps its anchor, a zone that was filled in
// stays, and a time relative to now that was resolved once is not resolved
// again.
func Converge(definition []byte, params json.RawMessage, env Env) (Change, error) {
	c, err := converge(definition, params, env)
	return c, during("cron.add", err)
}

func converge(definition []byte, params json.RawMessage, env Env) (Change, error) {
	old, err := Decode(definition)
	if err != nil {
		return Change{}, err
	}
	d, err := newDraft(old.ID, params, env, &old.Schedule)
	if err != nil {
		return Change{}, err
	}
	p := &patch{env: env, stored: definition, old: old, spec: d.spec, kind: d.kind, pending: d.notes}
	schedule, err := replaceSchedule(rawjson.Get(definition, "schedule"), &old.Schedule, &d.spec)
	if err != nil {
		return Change{}, err
	}
	p.set("schedule", schedule)
	for _, key := range convergedKeys {
		p.set(key, d.stored[key])
	}
	if err := p.converge("payload", d, payloadKeys); err != nil {
		return Change{}, err
	}
	if err := p.converge("delivery", d, deliveryKeys); err != nil {
		return Change{}, err
	}
	p.remove("trigger") // a declaration with one was refused above
	if err := p.oneShotRule(); err != nil {
		return Change{}, err
	}
	if _, given := d.get("deleteAfterRun"); given && old.Schedule.Kind != d.spec.Kind {
		p.set("deleteAfterRun", d.stored["deleteAfterRun"])
	}
	if d.enabledGiven {
		enabled := string(d.stored["enabled"]) == "true"
		p.change.Enabled, p.change.Disabled = enabled, !enabled
		if enabled != old.Enabled {
			p.set("enabled", boolJSON(enabled))
		}
		if enabled {
			p.remove("disabledReason")
		}
	}
	if target := textMember(p.settled("sessionTarget")); checkTarget(target, p.kind) != nil {
		p.set("sessionTarget", d.stored["sessionTarget"])
	}
	c, err := p.finish()
	if err == nil && !c.Changed {
		c.Notes = nil
	}
	return c, err
}

// converge replaces an object member by the declared one; keys within it that
// rota does not know are kept.
func (p *patch) converge(key string, d *draft, known []string) error {
	next, stored := d.stored[key], rawjson.Get(p.stored, key)
	if next != nil && isObject(stored) {
		var err error
		if next, err = overwrite(stored, next, known); err != nil {
			return err
		}
	}
	p.set(key, next)
	return nil
}
