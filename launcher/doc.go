// Package launcher performs the effects of runs and says exactly how each one
// ended.
//
// It takes committed orders from the worker's port, looks once more whether
// each run may still start, notes it in the launch log, and hands it to the
// executor of its payload's kind: a process, or an HTTP request. It delivers
// results to webhooks. It decides no schedule, retries no run, and touches no
// database: what it reports is all the ledger learns about an effect.
//
// # What holds
//
//   - A receipt id is in the launch log, by one write(2), before anything of
//     that run exists. After a kill of the daemon, a run that is not in the log
//     certainly never started.
//   - Every launch order ends in exactly one Report, also at shutdown, and so
//     does every delivery.
//   - Every deadline is monotonic. Steps of the wall clock change only the times
//     that are shown.
//   - A run's output costs at most its cap per stream, however much it prints;
//     the byte counts are exact all the same.
//   - When a command is cut short, its whole session is ended: TERM, the grace,
//     KILL, also when its first process has gone before. On Linux processes that
//     left the session are found by the ROTA_RUN_ID in their environment.
//   - A connection is made only to an address that the policy allows, decided
//     for each connection when its address is known, however the URL spells it.
//   - "Delivered" needs a whole answer of 2xx. A request that may have reached
//     its receiver and had no answer is not called undelivered.
//   - No error, diagnostic or log line shows a query, a header or a token.
//
// # Caveats
//
//   - The launch log is never synced. It survives the death of the daemon, not
//     a power cut; recovery treats another boot as "may have started".
//   - A command that ends by itself may leave processes behind, as under cron,
//     if they have let go of its output. Those that still hold the output have
//     two seconds, then their session is ended.
//   - A process that runs as another user, or that on macOS left its session,
//     may escape. A process that the kernel does not end ten seconds after KILL
//     is given up: the run ends, and one goroutine stays with the process.
//   - An attempt to deliver is announced in the launch log before it is made. A
//     receiver may still see one twice, because the transport repeats a request
//     that met a connection which was just being closed; both carry the run's
//     key.
//   - The request of a run has a connection of its own, so it is sent once. A
//     GET costs a handshake for that.
//   - On Windows the end of a command, and the daemon's death, end everything it
//     started, because its job object closes; a program without a console cannot
//     be asked to end, and is ended at once.
//   - As PID 1 the launcher reaps orphans. A program that is PID 1 and embeds
//     two launchers needs an init of its own.
//
// # Concurrency
//
// One goroutine takes orders; each run has one of its own, and each delivery.
// How many there are is the worker's decision and not bounded here. No port
// function is called with a lock held, but one that blocks delays its own run.
package launcher
