package worker

import "github.com/rota-scheduler/rota/store"

// Phase is where a run stands in the ledger.
type Phase uint8

const (
	// PhaseNone: no run is open. A slot or a request enters here; nothing is
	// written yet, so a crash leaves nothing behind.
	PhaseNone Phase = iota
	// PhaseRequested: receipt running, job marked queuedAtMs. A due slot or a
	// caller brought it here; a free place takes it on. A crash leaves the
	// receipt, and the next start resumes it where its id can be read.
	PhaseRequested
	// PhaseActive: receipt running, job marked runningAtMs and
	// runningReceiptId, and the launcher has it or is about to. A crash leaves
	// marker and receipt, and the next start asks the launch log.
	PhaseActive
	// PhaseDelivering: executed, and its result is kept in rota_outbox while it is
	// sent; receipt and markers are those of an active run. It holds its job and
	// no place. A crash leaves them, and the next start asks the launch log
	// whether a send may have reached the receiver.
	PhaseDelivering
	// PhaseDone: receipt terminal, history written, markers gone, all in one
	// commit. Nothing leaves it.
	PhaseDone
	phases
)

// Input is what can happen to a run.
type Input uint8

const (
	InSlotDue          Input = iota // a slot of the job came due; the open run, if any, is a timed one
	InSlotBehind                    // a slot came due while the open run is a manual or event one
	InAsked                         // somebody asks for a manual run
	InPlaceFree                     // it is first in the queue and a place is free
	InUnrunnable                    // it may not start: invalid, ownerless, of a kind this build does not run
	InEdited                        // the definition changed, the schedule did not
	InRescheduled                   // the schedule changed
	InDisabled                      // an operator disabled the job
	InRemoved                       // the job was removed
	InRefused                       // the launcher refused it at the live check
	InUnlaunched                    // the launcher is stopping and never started it
	InStopped                       // an operator stops this run
	InOutcome                       // the launcher reports its end
	InRestartFinalized              // restart; its history row was written
	InRestartUnstarted              // restart in the same boot; it is not in the launch log
	InRestartUncertain              // restart; it may have started
	InRestartKeyed                  // restart; it waits under an id that can be read, and is still wanted
	InRestartLost                   // restart; it waits and cannot or must not be resumed
	InRestartOrphan                 // restart; a receipt without its job or marker
	InExecuted                      // the launcher reports the end of execution, and a delivery follows
	InDelivered                     // the launcher reports the end of the delivery
	InUnsent                        // the launcher is stopping between two attempts: nothing is in flight
	InRestartUnsent                 // restart; a result is kept, and every send of it was answered
	InRestartSent                   // restart; a result is kept, and a send of it may have arrived
	inputs
)

// Effect is what a transition writes, all in the commit that decides it.
type Effect uint8

const (
	DoNothing   Effect = iota // ignored by id, or nothing to do
	DoRefuse                  // the asker is told why; nothing is written
	DoRequest                 // receipt, queued marker; for a slot also deadline and mark
	DoOverlap                 // decision row; deadline and mark advanced
	DoWait                    // the deadline stays; the slot is requested when the open run settles
	DoActivate                // marker swap, receipt start, launch
	DoSkip                    // receipt skipped where there is one, history row with the reason, marker gone
	DoCancel                  // the launcher is asked to end it
	DoMarkEdit                // the run's end will keep the newer schedule
	DoSettle                  // receipt, history and state by the outcome
	DoRestore                 // receipt and state by the history row that is already there
	DoRequeue                 // the activation is taken back, under the same id
	DoKeep                    // it stays as it is, under the same id
	DoInterrupt               // receipt interrupted, history error; nothing is run again
	DoDeliver                 // the result is kept and handed to the launcher to be sent
	DoResume                  // the kept result is handed to the launcher again
	DoHold                    // the sends that were answered are counted; the next start goes on
	DoConclude                // receipt, history and state by the kept result and what became of its delivery
)

// Transition is one cell of the table of a run's life.
type Transition struct {
	// To is what the effect must leave behind. The effect sets it; the
	// exhaustive test holds it to that, in the rows.
	To     Phase
	Effect Effect
	// Receipt is the terminal status written, "" where none is, "outcome" where
	// the outcome or the history row decides.
	Receipt string
	Why     string // for documentation and decision rows
}

// byOutcome marks a receipt status that the outcome decides.
const byOutcome = "outcome"

// life is the whole life of a run: every phase crossed with every input. The
// documentation and the exhaustive test are made from it, and the turn acts by
// it alone.
var life = [phases][inputs]Transition{
	PhaseNone: {
		InSlotDue:          {PhaseRequested, DoRequest, "", "the slot is due"},
		InSlotBehind:       {PhaseNone, DoNothing, "", "cannot be: no run is open"},
		InAsked:            {PhaseRequested, DoRequest, "", "somebody asked"},
		InPlaceFree:        {PhaseNone, DoNothing, "", "nothing waits"},
		InUnrunnable:       {PhaseDone, DoSkip, "", "it may not start; siblings go on"},
		InEdited:           {PhaseNone, DoNothing, "", "no run is concerned"},
		InRescheduled:      {PhaseNone, DoNothing, "", "no run is concerned"},
		InDisabled:         {PhaseNone, DoNothing, "", "no run is concerned"},
		InRemoved:          {PhaseNone, DoNothing, "", "no run is concerned"},
		InRefused:          {PhaseNone, DoNothing, "", "unknown id: ignored"},
		InUnlaunched:       {PhaseNone, DoNothing, "", "unknown id: ignored"},
		InStopped:          {PhaseNone, DoRefuse, "", "there is no such run"},
		InOutcome:          {PhaseNone, DoNothing, "", "unknown id: ignored"},
		InRestartFinalized: {PhaseNone, DoNothing, "", "nothing to restore"},
		InRestartUnstarted: {PhaseNone, DoNothing, "", "nothing to resume"},
		InRestartUncertain: {PhaseNone, DoNothing, "", "nothing to record"},
		InRestartKeyed:     {PhaseNone, DoNothing, "", "nothing to resume"},
		InRestartLost:      {PhaseNone, DoNothing, "", "nothing to record"},
		InRestartOrphan:    {PhaseNone, DoNothing, "", "nothing to record"},
		InExecuted:         {PhaseNone, DoNothing, "", "unknown id: ignored"},
		InDelivered:        {PhaseNone, DoNothing, "", "unknown id: ignored"},
		InUnsent:           {PhaseNone, DoNothing, "", "unknown id: ignored"},
		InRestartUnsent:    {PhaseNone, DoNothing, "", "nothing is kept"},
		InRestartSent:      {PhaseNone, DoNothing, "", "nothing is kept"},
	},
	PhaseRequested: {
		InSlotDue:          {PhaseRequested, DoOverlap, "", "the job's timed run is open"},
		InSlotBehind:       {PhaseRequested, DoWait, "", "the job's manual run is open"},
		InAsked:            {PhaseRequested, DoRefuse, "", "already running"},
		InPlaceFree:        {PhaseActive, DoActivate, "", "a place is free; the current payload is frozen"},
		InUnrunnable:       {PhaseDone, DoSkip, store.ReceiptSkipped, "it may not start any more"},
		InEdited:           {PhaseRequested, DoNothing, "", "the payload is read at activation"},
		InRescheduled:      {PhaseDone, DoSkip, store.ReceiptSkipped, "its schedule was replaced"},
		InDisabled:         {PhaseDone, DoSkip, store.ReceiptSkipped, "its job was disabled"},
		InRemoved:          {PhaseDone, DoSkip, store.ReceiptSkipped, "its job was removed"},
		InRefused:          {PhaseRequested, DoNothing, "", "it was not handed out: ignored"},
		InUnlaunched:       {PhaseRequested, DoNothing, "", "it was not handed out: ignored"},
		InStopped:          {PhaseDone, DoSkip, store.ReceiptSkipped, "stopped before it started"},
		InOutcome:          {PhaseRequested, DoNothing, "", "it was not handed out: ignored"},
		InRestartFinalized: {PhaseDone, DoRestore, byOutcome, "its end is in the history"},
		InRestartUnstarted: {PhaseRequested, DoKeep, "", "it never started"},
		InRestartUncertain: {PhaseRequested, DoKeep, "", "it never started"},
		InRestartKeyed:     {PhaseRequested, DoKeep, "", "resumes under the same id"},
		InRestartLost:      {PhaseDone, DoSkip, store.ReceiptSkipped, "its launch context was lost or is no longer wanted"},
		InRestartOrphan:    {PhaseDone, DoInterrupt, store.ReceiptInterrupted, "its job or marker is gone"},
		InExecuted:         {PhaseRequested, DoNothing, "", "it was not handed out: ignored"},
		InDelivered:        {PhaseRequested, DoNothing, "", "it was not handed out: ignored"},
		InUnsent:           {PhaseRequested, DoNothing, "", "it was not handed out: ignored"},
		InRestartUnsent:    {PhaseRequested, DoNothing, "", "nothing is kept"},
		InRestartSent:      {PhaseRequested, DoNothing, "", "nothing is kept"},
	},
	PhaseActive: {
		InSlotDue:          {PhaseActive, DoOverlap, "", "the job's timed run is open"},
		InSlotBehind:       {PhaseActive, DoWait, "", "the job's manual run is open"},
		InAsked:            {PhaseActive, DoRefuse, "", "already running"},
		InPlaceFree:        {PhaseActive, DoNothing, "", "it has its place"},
		InUnrunnable:       {PhaseActive, DoNothing, "", "its payload is frozen"},
		InEdited:           {PhaseActive, DoNothing, "", "its payload is frozen"},
		InRescheduled:      {PhaseActive, DoMarkEdit, "", "its end keeps the newer schedule"},
		InDisabled:         {PhaseActive, DoNothing, "", "it may end; its end keeps the job disabled"},
		InRemoved:          {PhaseActive, DoCancel, "", "asked to end; recorded without a job row"},
		InRefused:          {PhaseDone, DoSkip, store.ReceiptSkipped, "refused at the live check"},
		InUnlaunched:       {PhaseRequested, DoRequeue, "", "nothing started: same id, resumes at the next start"},
		InStopped:          {PhaseActive, DoCancel, "", "asked to end"},
		InOutcome:          {PhaseDone, DoSettle, byOutcome, "it ended"},
		InRestartFinalized: {PhaseDone, DoRestore, byOutcome, "its end is in the history; not run again"},
		InRestartUnstarted: {PhaseRequested, DoRequeue, "", "it never started: same id, resumes"},
		InRestartUncertain: {PhaseDone, DoInterrupt, store.ReceiptInterrupted, "it may have started; never replayed"},
		InRestartKeyed:     {PhaseActive, DoNothing, "", "not a waiting run"},
		InRestartLost:      {PhaseActive, DoNothing, "", "not a waiting run"},
		InRestartOrphan:    {PhaseDone, DoInterrupt, store.ReceiptInterrupted, "its job or marker is gone"},
		InExecuted:         {PhaseDelivering, DoDeliver, "", "the result is committed before the first send"},
		InDelivered:        {PhaseActive, DoNothing, "", "nothing is being delivered: ignored"},
		InUnsent:           {PhaseActive, DoNothing, "", "nothing is being delivered: ignored"},
		InRestartUnsent:    {PhaseActive, DoNothing, "", "nothing is kept"},
		InRestartSent:      {PhaseActive, DoNothing, "", "nothing is kept"},
	},
	PhaseDelivering: {
		InSlotDue:          {PhaseDelivering, DoOverlap, "", "the job's timed run is open"},
		InSlotBehind:       {PhaseDelivering, DoWait, "", "the job's manual run is open"},
		InAsked:            {PhaseDelivering, DoRefuse, "", "already running: its result is being delivered"},
		InPlaceFree:        {PhaseDelivering, DoNothing, "", "it needs no place"},
		InUnrunnable:       {PhaseDelivering, DoNothing, "", "it has run"},
		InEdited:           {PhaseDelivering, DoNothing, "", "its result is kept"},
		InRescheduled:      {PhaseDelivering, DoMarkEdit, "", "its end keeps the newer schedule"},
		InDisabled:         {PhaseDelivering, DoNothing, "", "it may end; its end keeps the job disabled"},
		InRemoved:          {PhaseDelivering, DoCancel, "", "its delivery is asked to end; recorded without a job row"},
		InRefused:          {PhaseDelivering, DoNothing, "", "it was launched: ignored"},
		InUnlaunched:       {PhaseDelivering, DoNothing, "", "it was launched: ignored"},
		InStopped:          {PhaseDelivering, DoCancel, "", "its delivery is asked to end"},
		InOutcome:          {PhaseDelivering, DoNothing, "", "late: its result is kept"},
		InRestartFinalized: {PhaseDone, DoRestore, byOutcome, "its end is in the history; nothing is sent again"},
		InRestartUnstarted: {PhaseDelivering, DoNothing, "", "it has run"},
		InRestartUncertain: {PhaseDelivering, DoNothing, "", "it has run"},
		InRestartKeyed:     {PhaseDelivering, DoNothing, "", "not a waiting run"},
		InRestartLost:      {PhaseDelivering, DoNothing, "", "not a waiting run"},
		InRestartOrphan:    {PhaseDelivering, DoNothing, "", "its result is kept"},
		InExecuted:         {PhaseDelivering, DoNothing, "", "late: its result is kept"},
		InDelivered:        {PhaseDone, DoConclude, byOutcome, "its result, and what became of its delivery"},
		InUnsent:           {PhaseDelivering, DoHold, "", "nothing is in flight; the next start goes on"},
		InRestartUnsent:    {PhaseDelivering, DoResume, "", "nothing was sent that is not answered"},
		InRestartSent:      {PhaseDone, DoConclude, byOutcome, "its result; the delivery is unknown and not sent again"},
	},
	PhaseDone: {
		InSlotDue:          {PhaseDone, DoNothing, "", "terminal: a new slot is a new run"},
		InSlotBehind:       {PhaseDone, DoNothing, "", "terminal: a new slot is a new run"},
		InAsked:            {PhaseDone, DoRefuse, "", "the same key gives the same run"},
		InPlaceFree:        {PhaseDone, DoNothing, "", "terminal"},
		InUnrunnable:       {PhaseDone, DoNothing, "", "terminal"},
		InEdited:           {PhaseDone, DoNothing, "", "terminal"},
		InRescheduled:      {PhaseDone, DoNothing, "", "terminal"},
		InDisabled:         {PhaseDone, DoNothing, "", "terminal"},
		InRemoved:          {PhaseDone, DoNothing, "", "terminal; its history stays"},
		InRefused:          {PhaseDone, DoNothing, "", "late: ignored by id"},
		InUnlaunched:       {PhaseDone, DoNothing, "", "late: ignored by id"},
		InStopped:          {PhaseDone, DoRefuse, "", "it has ended"},
		InOutcome:          {PhaseDone, DoNothing, "", "late: ignored by id"},
		InRestartFinalized: {PhaseDone, DoNothing, "", "terminal"},
		InRestartUnstarted: {PhaseDone, DoNothing, "", "terminal"},
		InRestartUncertain: {PhaseDone, DoNothing, "", "terminal"},
		InRestartKeyed:     {PhaseDone, DoNothing, "", "terminal"},
		InRestartLost:      {PhaseDone, DoNothing, "", "terminal"},
		InRestartOrphan:    {PhaseDone, DoNothing, "", "terminal"},
		InExecuted:         {PhaseDone, DoNothing, "", "late: ignored by id"},
		InDelivered:        {PhaseDone, DoNothing, "", "late: ignored by id"},
		InUnsent:           {PhaseDone, DoNothing, "", "late: ignored by id"},
		InRestartUnsent:    {PhaseDone, DoNothing, "", "terminal"},
		InRestartSent:      {PhaseDone, DoNothing, "", "terminal"},
	},
}

// Names for documentation, decision rows and test output.
var (
	phaseNames = [phases]string{"none", "requested", "active", "delivering", "done"}
	inputNames = [inputs]string{
		"slot due", "slot due behind a manual run", "asked for", "a place is free", "may not start",
		"edited", "rescheduled", "disabled", "removed", "refused at the live check", "not launched before the stop",
		"stopped", "outcome",
		"restart, history row found", "restart, not in the launch log", "restart, may have started",
		"restart, waiting under a readable id", "restart, waiting and lost", "restart, no job or marker",
		"executed, delivery to follow", "delivery ended", "delivery not ended before the stop",
		"restart, result kept and every send answered", "restart, result kept and a send unanswered",
	}
	effectNames = [...]string{
		"nothing", "refuse", "request", "overlap", "wait", "activate", "skip", "cancel", "mark the edit", "settle",
		"restore", "requeue", "keep", "interrupt", "deliver", "resume", "hold", "conclude",
	}
)

func (p Phase) String() string  { return phaseNames[p] }
func (i Input) String() string  { return inputNames[i] }
func (e Effect) String() string { return effectNames[e] }
