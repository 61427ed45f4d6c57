package launcher

import "github.com/rota-scheduler/rota/worker/job"

// Error is how the launcher refuses: what was attempted, why it failed, and
// what to type next. It is returned or becomes part of an outcome, and is never
// also logged.
type Error struct {
	// Code tells the reasons apart. The list is append-only:
	//
	//	bad-cwd         the working directory cannot be used
	//	not-found       no such program in PATH or at its path
	//	not-permitted   the program is there and may not be executed
	//	not-a-program   it is executable, and the system cannot run it
	//	relative-path   it was found only through a relative PATH entry
	//	bad-argument    the arguments or variables cannot be passed on
	//	too-long        arguments and variables exceed the system's limit
	//	no-resources    no process, file or memory to be had
	//	start-failed    any other failure to start
	//	no-executor     this launcher does not perform such payloads
	//	launch-log      the launch log cannot be read or written
	//	no-home         the home directory is unknown
	//	bad-request     a request that cannot or must not be sent
	//	blocked         the address may not be reached
	//	echo            the echo listener cannot listen
	Code    string
	Op      string // what was attempted
	Message string // one sentence, for people
	Hint    string // what to type next; empty if there is nothing to do
	Err     error  // cause; nil if none
}

// Error gives the message, the hint and the cause on one line, as every refusal
// of rota's does.
func (e *Error) Error() string {
	return (&job.Error{Message: e.Message, Hint: e.Hint, Err: e.Err}).Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
