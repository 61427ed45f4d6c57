package store

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"modernc.org/sqlite"
)

// Code names what went wrong. The list only grows: scripts match on it.
type Code string

// Refusals of Open: the file is left as it was.
const (
	CodeHeld         Code = "held"           // another rota has the lock
	CodeInUse        Code = "in-use"         // another program has the database open
	CodeNewerSchema  Code = "newer-schema"   // written by a newer rota
	CodeNotADatabase Code = "not-a-database" // the first bytes are not SQLite's
	CodeTruncated    Code = "truncated"      // shorter than its header says
	CodeEmpty        Code = "empty"          // zero bytes
	CodeForeign      Code = "foreign"        // some other program's database
	CodeStaleWAL     Code = "stale-wal"      // a log that does not belong to the file
	CodeMissingWAL   Code = "missing-wal"    // stopped uncleanly and the log is gone
	CodeCorrupt      Code = "corrupt"        // SQLite's check found damage
	CodePragma       Code = "pragma"         // a setting did not take
	CodeReadOnly     Code = "readonly"       // file or directory cannot be written
	CodeNetworkFS    Code = "network-fs"     // locks are not to be trusted there
	CodeBadPath      Code = "bad-path"       // no such place, or not a regular file
)

// Failures of a transaction, or of the disk under it.
const (
	CodeFenced        Code = "fenced"         // the file is shown, not written
	CodeConstraint    Code = "constraint"     // the savepoint alone is undone
	CodeDiskFull      Code = "disk-full"      // ends the turn; nothing was kept
	CodeIO            Code = "io"             // ends the turn
	CodeNoMemory      Code = "no-memory"      // ends the turn
	CodeInterrupt     Code = "interrupt"      // ends the turn
	CodeStatement     Code = "statement"      // SQLite refused the statement itself
	CodeSavepoint     Code = "savepoint"      // a savepoint could not be set, undone or released
	CodeEnded         Code = "ended"          // a statement after an error that ended the turn
	CodeCommitFailed  Code = "commit-failed"  // certainly rolled back
	CodeCommitUnknown Code = "commit-unknown" // may or may not be on disk: Reopen and read
	CodeNeedsReopen   Code = "needs-reopen"   // the connection is not to be used before Reopen
	CodeRollback      Code = "rollback"       // Reopen found an older file than it left
	CodeLockLost      Code = "lock-lost"      // the lock file was replaced
	CodeMisuse        Code = "misuse"         // a defect of the calling code
)

// Failures of a backup: the database itself is as it was, and nothing is left of
// the copy.
const (
	CodeBackupExists  Code = "backup-exists"  // something is at the path already
	CodeBackupPath    Code = "backup-path"    // no file can be made at the path
	CodeBackupFailed  Code = "backup-failed"  // it could not be read or written to its end
	CodeBackupDamaged Code = "backup-damaged" // it did not pass its check
)

// said is what a person reads for a code: the sentence, the command to type
// ({db} and {wal} are paths, quoted), and the exit code of a command line.
type said struct {
	sentence, hint string
	exit           int
}

const restoreHint = "the file is kept as it is; put a backup in its place, then: rota serve --db {db}"

var saidByCode = map[Code]said{
	CodeHeld:          {"another rota holds this database", "stop that one, or give this one a directory of its own: rota serve --state-dir DIR", 75},
	CodeInUse:         {"another program has this database open", "stop the program that uses {db}, then start again", 75},
	CodeNewerSchema:   {"this database was written by a newer rota", "install that version or a later one; this is: rota version", 78},
	CodeNotADatabase:  {"this is not an SQLite database", restoreHint, 78},
	CodeTruncated:     {"this database is cut short", restoreHint, 78},
	CodeEmpty:         {"this file has no bytes; a database that rota made is never empty", "put a backup in its place, or, if it never held jobs, remove it and start again: rota serve --db {db}", 78},
	CodeForeign:       {"this database belongs to another program and has no cron tables", "give the path of a database of rota's or of OpenClaw's with --db FILE", 78},
	CodeStaleWAL:      {"a write-ahead log lies here that does not belong to the database", "put the database it belongs to back beside it, or set the log aside with: mv {wal} {aside}", 78},
	CodeMissingWAL:    {"this database was not closed cleanly and its -wal file is missing, so its newest rows are missing too", "copy the -wal file beside it, or restore a backup, or take it without those rows: rota serve --db {db} --adopt", 78},
	CodeCorrupt:       {"this database is damaged", restoreHint, 78},
	CodePragma:        {"a database setting did not take effect", "report this with the text of this message and the output of: rota version", 78},
	CodeReadOnly:      {"this database cannot be written", "give its directory and files to the user that runs rota: ls -ld {db}", 74},
	CodeNetworkFS:     {"this database is on a network file system, where locks cannot be trusted", "keep it on a local disk: rota serve --db FILE", 78},
	CodeBadPath:       {"no database can be kept at this path", "give the path of a regular file in a directory of your own: rota serve --db FILE", 78},
	CodeFenced:        {"this database is shown but not written", "if this machine shall own it from now on: rota serve --db {db} --adopt", 4},
	CodeConstraint:    {"a rule of the database refused the row", "see the state of the job with: rota cron list --all", 5},
	CodeDiskFull:      {"the disk is full", "free some space on the disk of {db}; rota goes on by itself", 74},
	CodeIO:            {"the disk failed", "look at the system log and at the disk of {db}", 74},
	CodeNoMemory:      {"out of memory", "free memory and start again: rota serve --db {db}", 1},
	CodeInterrupt:     {"the statement was interrupted", "try again", 1},
	CodeStatement:     {"the database refused a statement", "report this with the text of this message and the output of: rota version", 1},
	CodeSavepoint:     {"a savepoint failed", "report this with the text of this message and the output of: rota version", 1},
	CodeEnded:         {"this turn has already failed", "roll it back", 1},
	CodeCommitFailed:  {"the commit failed and was rolled back", "try again", 74},
	CodeCommitUnknown: {"the disk failed during the commit; whether it was kept is not known yet", "rota re-reads the file and answers; look at the system log", 74},
	CodeNeedsReopen:   {"the database must be reopened first", "wait, or restart: rota serve --db {db}", 74},
	CodeRollback:      {"an older file has taken the place of the database", "stop rota, put the right file back, start: rota serve --db {db}", 74},
	CodeLockLost:      {"the lock file was removed or replaced while held", "stop every rota on this file and start one: rota serve --db {db}", 74},
	CodeMisuse:        {"a transaction was used wrongly", "report this with the text of this message and the output of: rota version", 1},

	CodeBackupExists:  {"a backup replaces nothing", "give a name that is not taken: rota backup FILE", 5},
	CodeBackupPath:    {"no backup can be made at this path", "give a new name in a directory that is there: rota backup FILE", 1},
	CodeBackupFailed:  {"the backup failed, and nothing of it is left", "see that its directory can be written and has space, and try again: rota backup FILE", 74},
	CodeBackupDamaged: {"the backup did not pass its check and is removed", "try another disk: rota backup FILE; if that fails too, the database is damaged: stop rota and restore an older backup", 74},
}

// Error is every error of this package: a code for programs, what was
// attempted and where, the cause, and what to type next.
type Error struct {
	Code Code
	Op   string // open, begin, exec, query, savepoint, commit, rollback, reopen, close, checkpoint, backup
	Path string // the real path
	Hint string
	Err  error // nil when the code says it all
}

func (e *Error) Error() string {
	text := e.Op + " " + e.Path + ": " + saidByCode[e.Code].sentence
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// ExitCode is what a command line exits with on this error.
func (e *Error) ExitCode() int { return saidByCode[e.Code].exit }

// CodeOf is the code of the first Error in the chain, "" if there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// HintOf is what the first Error in the chain says to type, "" if there is none.
func HintOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

func newError(code Code, op, path string, cause error) *Error {
	fill := strings.NewReplacer("{db}", quotePath(path), "{wal}", quotePath(path+"-wal"), "{aside}", quotePath(path+"-wal.aside"))
	return &Error{Code: code, Op: op, Path: path, Hint: fill.Replace(saidByCode[code].hint), Err: cause}
}

// quotePath makes a path safe to paste into a shell; plain ones stay plain.
func quotePath(p string) string {
	plain := func(r rune) bool {
		return r > 127 || strings.ContainsRune("/._-+:@,%=", r) ||
			r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if p != "" && strings.IndexFunc(p, func(r rune) bool { return !plain(r) }) < 0 {
		return p
	}
	return "'" + strings.ReplaceAll(p, "'", `'\''`) + "'"
}

// ErrorClass is the kind of a failure, as far as the next step depends on it.
// It is an error itself, so that Options.Fault can return one.
type ErrorClass uint8

const (
	Other ErrorClass = iota
	Constraint
	DiskFull
	IO
	Busy
	Corrupt
	Interrupt
	NoMem
)

var classNames = [...]string{"other", "constraint", "disk-full", "io", "busy", "corrupt", "interrupt", "nomem"}

func (c ErrorClass) String() string { return classNames[c] }
func (c ErrorClass) Error() string  { return "class " + classNames[c] }

// classByResult maps SQLite's primary result codes. What is missing is Other.
var classByResult = map[int]ErrorClass{
	5: Busy, 6: Busy, 15: Busy, // BUSY, LOCKED, PROTOCOL
	7: NoMem, 9: Interrupt,
	10: IO, 14: IO, // IOERR, CANTOPEN
	11: Corrupt, 26: Corrupt, // CORRUPT, NOTADB
	13: DiskFull, 19: Constraint,
}

const (
	resultReadOnly = 8
	resultNotADB   = 26
)

// sqliteResult is the primary result code in the chain, 0 if SQLite said nothing.
func sqliteResult(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// Class sorts an error by what must follow from it.
func Class(err error) ErrorClass {
	var c ErrorClass
	if errors.As(err, &c) {
		return c
	}
	if c, ok := classByResult[sqliteResult(err)]; ok {
		return c
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return DiskFull
	case errors.Is(err, syscall.EIO):
		return IO
	}
	return Other
}

// EndsTurn says that the whole transaction is lost: SQLite may already have
// rolled it back, so nothing but Rollback may follow. Only a refusal by rota's
// own rules, by the fence, or by a constraint leaves the transaction standing.
func EndsTurn(err error) bool {
	if err == nil {
		return false
	}
	switch CodeOf(err) {
	case CodeFenced, CodeConstraint:
		return false
	case "":
		c := Class(err)
		return c != Constraint && (c != Other || sqliteResult(err) != 0)
	}
	return true
}

// CommitUnknown says that the failed commit may be on disk all the same.
func CommitUnknown(err error) bool { return CodeOf(err) == CodeCommitUnknown }

var codeByClass = map[ErrorClass]Code{
	Other: CodeStatement, Constraint: CodeConstraint, DiskFull: CodeDiskFull, IO: CodeIO,
	Busy: CodeInUse, Corrupt: CodeCorrupt, Interrupt: CodeInterrupt, NoMem: CodeNoMemory,
}

// wrap gives a cause its code. An Error passes as it is: it already says more.
func wrap(op, path string, err error) error {
	if err == nil || CodeOf(err) != "" {
		return err
	}
	code := codeByClass[Class(err)]
	switch {
	case sqliteResult(err) == resultReadOnly:
		code = CodeReadOnly
	case sqliteResult(err) == resultNotADB:
		code = CodeNotADatabase
	}
	return newError(code, op, path, err)
}

// wrapFile gives an error of the file system its code.
func wrapFile(op, path string, err error) error {
	if err == nil || CodeOf(err) != "" {
		return err
	}
	code := CodeIO
	switch {
	case Class(err) == DiskFull:
		code = CodeDiskFull
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		code = CodeReadOnly
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG):
		code = CodeBadPath
	}
	return newError(code, op, path, err)
}

// also adds what went wrong while an error was being dealt with.
func also(err, next error) error {
	switch {
	case next == nil:
		return err
	case err == nil:
		return next
	}
	return errors.Join(err, next)
}

func misuse(op, path, what string) error {
	return newError(CodeMisuse, op, path, errors.New(what))
}
