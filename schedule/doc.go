// Package schedule answers one question: when does a job fire?
//
// A [Schedule] is a small immutable value of one of three kinds: at (one
// instant), every (a grid of elapsed time from an anchor) or cron (wall time in
// a zone). Next and Prev are pure functions of the schedule and an instant.
//
// What it does not do: it never reads a clock, keeps no record of what has run,
// waits for nothing and decides nothing about overlap, limits or retries. The
// caller owns "now". The only input outside the arguments is zone data: the
// copy embedded in the binary, or the one that ZONEINFO names when the first
// zone is loaded.
//
// # Instants and wall times
//
// Every instant is an int64 of Unix milliseconds within ±8.64e15 and carries
// the suffix Ms. A wall time is what a clock on the wall shows: seconds since
// 1970-01-01T00:00:00 on that clock. The two are both integers and are never
// mixed in one variable: a wall time is called wall or w, and becomes an
// instant only through a zone segment.
//
// # Daylight saving
//
// An expression is fixed-time when its second, minute and hour fields contain
// none of "*", "?" and "/"; otherwise it is an interval expression. Under
// [Vixie] a fixed-time wall time that the clocks jump over fires once, at the
// end of the jump, and one that occurs twice fires at its first pass; an
// interval expression follows the wall clock, so it skips the jump and fires in
// both passes. Under [Skip] a wall time that the clocks jump over is lost and
// every repeated wall time fires at its first pass only. A jump of a day or
// more is a date that never existed: nothing fires for it under either rule.
//
// # Invariants
//
//   - Next(x) > x and Prev(x) < x; iterating Next strictly increases.
//   - x < y implies Next(x) <= Next(y).
//   - Prev(Next(x)+1) = Next(x).
//   - A schedule, an expression and a zone are immutable: any number of
//     goroutines may share them.
//   - Next and Prev allocate nothing and visit at most 146,097 dates (one
//     Gregorian cycle) before they answer "never".
//
// # Caveats
//
// "0 0-23 * * *" is fixed-time although it names every hour, so a repeated hour
// runs once; "0 * * * *" runs in both passes. [Expression.Warnings] says so.
//
// An every schedule counts elapsed time: "every 1d" moves against the wall clock
// at each change of offset. Use cron for a time of day.
//
// Cron dates are searched from year 1 to year 9999 of local time.
package schedule
