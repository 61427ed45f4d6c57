package host

import "context"

// Scopes of the methods. The socket grants all of them: its callers are the
// user who owns the daemon.
const (
	ScopeRead  = "operator.read"
	ScopeWrite = "operator.write"
	ScopeAdmin = "operator.admin"
)

// method is one row of the table that every surface shares.
type method struct {
	Name  string
	Scope string
	// Write marks what changes the schedule: the network surfaces limit its rate.
	Write  bool
	Handle func(h *Host, ctx context.Context, p params) (any, error)
}

// methodTable lists every method, once. rota.subscribe is not here: it needs a
// connection to send events on, and each surface that has one offers it.
//
// It is a function because the table names handlers that show the table.
func methodTable() map[string]method {
	table := map[string]method{}
	for _, m := range methodRows() {
		table[m.Name] = m
	}
	return table
}

// subscribeMethod is the one method that each surface offers by itself.
const subscribeMethod = "rota.subscribe"

// ScopeOf is the scope that a method needs; "" for one that does not exist.
func ScopeOf(name string) string {
	if name == subscribeMethod {
		return ScopeRead
	}
	for _, m := range methodRows() {
		if m.Name == name {
			return m.Scope
		}
	}
	return ""
}

func methodRows() []method {
	return []method{
		{"cron.status", ScopeRead, false, (*Host).cronStatus},
		{"cron.list", ScopeRead, false, (*Host).cronList},
		{"cron.get", ScopeRead, false, (*Host).cronGet},
		{"cron.runs", ScopeRead, false, (*Host).cronRuns},
		{"cron.add", ScopeAdmin, true, (*Host).cronAdd},
		{"cron.update", ScopeAdmin, true, (*Host).cronUpdate},
		{"cron.remove", ScopeAdmin, true, (*Host).cronRemove},
		{"cron.run", ScopeAdmin, true, (*Host).cronRun},
		{"rota.stop", ScopeAdmin, true, (*Host).rotaStop},
		{"rota.logs", ScopeRead, false, (*Host).rotaLogs},
		{"rota.why", ScopeRead, false, (*Host).rotaWhy},
		{"rota.events", ScopeRead, false, (*Host).rotaEvents},
		{"rota.info", ScopeRead, false, (*Host).rotaInfo},
	}
}
