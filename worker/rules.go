package worker

// Rule names why a slot did or did not run. The list is append-only and
// public: rota why answers with it.
type Rule string

// What can be decided about a slot.
const (
	RuleDue          Rule = "due"           // its time came: a request was committed
	RuleStarted      Rule = "started"       // a place was free: it was handed to the launcher
	RuleFinished     Rule = "finished"      // its run ended; the detail is the history entry
	RuleOverlap      Rule = "overlap"       // the job's run was still open
	RuleMissed       Rule = "missed"        // it passed unseen (a stop, a sleep, schedules off), and the policy runs another or none
	RuleInterrupted  Rule = "interrupted"   // the job's run was interrupted by a restart, which takes the slots of that time with it
	RuleRefireGap    Rule = "refire-gap"    // less than two seconds after the end of the run before it
	RuleBackoff      Rule = "backoff"       // the job waits after a failed run, and its next attempt comes later
	RuleDelivering   Rule = "delivering"    // its run has ended, and the result is being delivered
	RuleRescheduled  Rule = "rescheduled"   // it was due and not requested yet when the schedule was replaced
	RuleManualDue    Rule = "manual-due"    // a manual run in mode due took its place
	RuleKnown        Rule = "known"         // its run id is in the ledger already
	RuleUnrunnable   Rule = "unrunnable"    // the job could not start: invalid, or of a kind this build does not run
	RuleWaiting      Rule = "waiting"       // due, and waiting behind the job's manual run or for a free place
	RuleFuture       Rule = "future"        // its time has not come
	RuleNotASlot     Rule = "not-a-slot"    // the schedule has no slot there
	RuleDisabled     Rule = "disabled"      // the job is disabled
	RuleBeforeActive Rule = "before-active" // before the present schedule took effect
	RulePlanned      Rule = "planned"       // missed, and planned to run late
	RuleUnrecorded   Rule = "unrecorded"    // decided before the kept decisions begin
	RuleClock        Rule = "clock"         // planned by a clock that was wrong; it is decided again when it comes
	RuleWaitsClock   Rule = "waits-clock"   // decided already; the clock was set back behind it
	RuleOff          Rule = "off"           // schedules are turned off (cron.enabled is false)
)

// ruleInfo is what a rule means.
type ruleInfo struct {
	Verdict string // requested, started, ran, skipped, waiting, none
	Text    string
}

var rules = map[Rule]ruleInfo{
	RuleDue:          {"requested", "the slot came due and a run request was committed"},
	RuleStarted:      {"started", "a place was free and the run was handed to the launcher"},
	RuleFinished:     {"ran", "the run ended"},
	RuleOverlap:      {"skipped", "the job's run was still open"},
	RuleMissed:       {"skipped", "the slot passed while rota was not running, the machine slept, or schedules were off"},
	RuleInterrupted:  {"skipped", "the job's run was interrupted by a restart"},
	RuleRefireGap:    {"skipped", "less than two seconds after the end of the run before it"},
	RuleBackoff:      {"skipped", "the job waited after a failed run"},
	RuleDelivering:   {"started", "the run has ended and its result is being delivered"},
	RuleRescheduled:  {"skipped", "the schedule was replaced before the slot was requested"},
	RuleManualDue:    {"skipped", "a manual run in mode due took its place"},
	RuleKnown:        {"skipped", "the ledger already has a run under this slot's id"},
	RuleUnrunnable:   {"skipped", "the job could not start"},
	RuleWaiting:      {"waiting", "it waits behind the job's manual run or for a free place"},
	RuleFuture:       {"none", "its time has not come"},
	RuleNotASlot:     {"none", "the schedule has no slot at this time"},
	RuleDisabled:     {"skipped", "the job was disabled"},
	RuleBeforeActive: {"none", "before the present schedule took effect"},
	RulePlanned:      {"waiting", "missed, and planned to run late"},
	RuleUnrecorded:   {"none", "decided before the kept decisions begin"},
	RuleClock:        {"skipped", "its late run was planned by a clock that was wrong; the slot is yet to come"},
	RuleWaitsClock:   {"waiting", "waiting for the clock: it was set back, and slots up to the job's mark are decided already"},
	RuleOff:          {"waiting", "schedules are turned off (cron.enabled is false): deadlines are frozen, and turning them on again is a start"},
}
