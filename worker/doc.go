// Package worker decides: what is due, what waits, what runs, and what the
// ledger says of it. One goroutine owns every transaction, every schedule
// decision and the run queue.
//
// It starts no process and opens no socket, reads no configuration file, and
// waits inside a transaction for nobody: what it needs is pushed to it, and what
// follows from a decision is handed out after the commit. Effects are the
// launcher's, callers are the host's.
//
// # Invariants
//
//   - Nothing leaves before the commit that makes it true: no launch, no answer,
//     no event, no snapshot.
//   - Memory is what the file says. It is staged beside the rows as immutable
//     values and becomes the truth with the commit, or is dropped with it.
//   - A slot is decided once. rotaConsumedMs is the greatest slot ever decided,
//     and no natural deadline is at or below it.
//   - A job has at most one open run. What happens to a run is one cell of the
//     table in life.go.
//   - A turn is a function of the rows, the messages and one reading of the
//     clocks. A batch gives what its messages would give one by one.
//
// # Concurrency
//
// Methods of Worker may be called from any goroutine. A command waits for its
// turn and for the caller's own deadline; a Snapshot is read without waiting.
// Subscriptions lose events rather than hold the worker: whoever reads too
// slowly pages them by sequence number, and is the one at fault. Port's functions
// never block.
//
// # Caveats
//
// A command that its caller gave up on may still be applied. A search of history
// looks at rows one by one, a few hundred between two turns: over millions it
// takes its time, and delays what is due by one such slice. Its answer is as of
// its start. A sleep is seen where monotonic time stands still during it, as on Linux and
// macOS; where it goes on, slots that passed are requested late, as due. After a
// clock was corrected by more than three hours, history written before still
// carries the wrong times.
//
// # Where to look
//
//	worker, loop, turn   the goroutine, one turn, what it stages
//	trouble, start       a turn that failed; the way into the first one
//	life, step           the table of a run's life, and what acts by it
//	queue, slots         requests and activations; deciding about slots
//	arm                  many runs of one moment, committed ahead of it
//	settle, entry        the end of a run; its history entry
//	retry, delivery      what a failure leads to; a result until it is sent
//	load, recover        the model from the file; what a start makes of open runs
//	catchup, plan        missed slots, and when they run late
//	clock, jump          three clocks, and wall time that steps
//	retime               deadlines after other zones, rules or programs
//	edit, reschedule, manual, jobsfile, reads   the commands
//	backup               a copy of the file, made between turns
//	search, totals       reading history a slice at a time; how much there is
//	retain, upkeep       what is removed, and when; moving the log into the file
//	decoded, saturation  what stays decoded of a job; how busy the loop is
//	commands, launch     what host and launcher exchange with the worker
//	rules, event         the catalogues that leave the process
//	model, tree          what is remembered, as values that a turn can drop
package worker
