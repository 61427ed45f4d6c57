// Package store keeps jobs, runs and rota's own bookkeeping in one SQLite file
// that one process holds. It says what is on disk; it decides nothing about
// schedules, starts nothing, and reads no clock.
//
// # Invariants
//
//   - One Store has the file. The lock is taken on <real path>.rota-lock before
//     the database is looked at, and kept until Close, also over a Reopen.
//   - There is one connection. It is opened with locking_mode=EXCLUSIVE, so a
//     program that does not know the lock file is noticed before the first read.
//   - Everything is read and written in a Tx. A Tx that met an error which may
//     have rolled it back (see EndsTurn) takes no further statement.
//   - A file is created under another name and renamed, complete, into place.
//   - A file that is fenced (a backup, a copy from another machine, a roll-back,
//     another program's jobs) is shown and not written until Options.Adopt.
//   - The database file is never opened by other means while a Store holds it:
//     on POSIX systems closing any descriptor of it drops SQLite's locks.
//
// # Concurrency
//
// A Store, its Tx, its Idle and its Backup belong to one goroutine; a Copy does not. Only the accessors that
// return what Open found (Path, Made, StoreKey, StartNumber, Fenced, …) may be
// called from others. Calls block for as long as the disk does and take no
// context: a cancelled statement would roll back the whole turn.
//
// # Caveats
//
//   - Files are found by real path. A hard link under another name has another
//     lock file; there only SQLite's own lock refuses the second process.
//   - The roll-back of a whole virtual machine cannot be seen: the file and the
//     lock file go back together.
//   - A write-ahead log says nothing of the file it belongs to. One that is of a
//     later start, or shows another file id, is refused; the log of another
//     database that happens to fit is not noticed.
//   - A fenced file keeps every row, but SQLite folds a write-ahead log that
//     lies beside it into the main file when the connection closes.
//   - With durability Normal a power cut may lose the newest commits; a kill
//     loses nothing in either setting.
package store
