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
	// Local marks what acts on this machine for whoever waits: it is offered on
	// the socket alone, and its ctx ends when the caller's side of the connection
	// does.
	Local bool
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
		{"cron.status", ScopeRead, false, (*Host).cronStatus, false},
		{"cron.list", ScopeRead, false, (*Host).cronList, false},
		{"cron.get", ScopeRead, false, (*Host).cronGet, false},
		{"cron.runs", ScopeRead, false, (*Host).cronRuns, false},
		{"cron.add", ScopeAdmin, true, (*Host).cronAdd, false},
		{"cron.update", ScopeAdmin, true, (*Host).cronUpdate, false},
		{"cron.remove", ScopeAdmin, true, (*Host).cronRemove, false},
		{"cron.run", ScopeAdmin, true, (*Host).cronRun, false},
		{"rota.stop", ScopeAdmin, true, (*Host).rotaStop, false},
		{"rota.logs", ScopeRead, false, (*Host).rotaLogs, false},
		{"rota.why", ScopeRead, false, (*Host).rotaWhy, false},
		{"rota.events", ScopeRead, false, (*Host).rotaEvents, false},
		{"rota.info", ScopeRead, false, (*Host).rotaInfo, false},
		{"rota.backup", ScopeAdmin, false, (*Host).rotaBackup, true},
	}
}
