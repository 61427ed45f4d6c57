package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/host"
	"github.com/rota-scheduler/rota/launcher"
	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/worker/job"
)

// Exit codes outside `rota cron`. Under it they are 0 and 1 (and 130), as the
// clients that the verbs were made for expect.
const (
	exitFailed       = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitNotAllowed   = 4
	exitConflict     = 5
	exitNoServer     = 6
	exitDoctor       = 7
	exitNotSucceeded = 8
	exitIO           = 74
	exitBusy         = 75
	exitConfig       = 78
	exitTimeout      = 124
	exitInterrupted  = 130
)

var exitTypes = map[int]string{
	exitFailed: "failed", exitUsage: "usage", exitNotFound: "not_found", exitNotAllowed: "not_allowed",
	exitConflict: "conflict", exitNoServer: "no_server", exitDoctor: "finding", exitNotSucceeded: "not_succeeded",
	exitIO: "io", exitBusy: "busy", exitConfig: "config", exitTimeout: "timeout", exitInterrupted: "interrupted",
}

// failure is how a verb fails: what, where, and what to type next.
type failure struct {
	Exit    int
	Code    string
	Message string
	Hint    string
	Field   string
	Matches []match // jobs between which a name does not decide
	// Told means that the result already says it all: only the exit code is left.
	Told bool
	Err  error // cause; nil if none
}

// match is one job of an ambiguous name.
type match struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Schedule string `json:"schedule"`
	Enabled  bool   `json:"enabled"`
	Status   string `json:"status"`
}

// Error gives the message.
func (f *failure) Error() string { return f.Message }

// Unwrap gives the cause.
func (f *failure) Unwrap() error { return f.Err }

// usage is a command line that says nothing sensible.
func usage(format string, args ...any) *failure {
	return &failure{Exit: exitUsage, Code: "usage", Message: fmt.Sprintf(format, args...)}
}

// told ends a verb with an exit code and without a message.
func told(exit int) *failure { return &failure{Exit: exit, Told: true} }

// failureOf gives any error its code, hint and exit.
func failureOf(err error) *failure {
	var fail *failure
	var noServer *host.NoServerError
	var wire *host.WireError
	var file *host.FileError
	var refusal *job.Error
	var sched *schedule.Error
	var held *host.SocketHeldError
	var listen *host.ListenError
	var remote *host.RemoteError
	var launch *launcher.Error
	switch {
	case errors.As(err, &fail):
		return fail
	case errors.As(err, &noServer):
		return &failure{Exit: exitNoServer, Code: "no_server", Err: err,
			Message: fmt.Sprintf("no rota daemon answers at %s: %v", noServer.Where, noServer.Err), Hint: noServer.Hint()}
	case errors.As(err, &wire):
		return wireFailure(wire)
	case errors.As(err, &file):
		return fileFailure(file)
	case errors.As(err, &held):
		return &failure{Exit: exitBusy, Code: "held", Message: err.Error(), Hint: "stop that one, or give this one a directory of its own: rota serve --state-dir DIR", Err: err}
	case errors.As(err, &listen):
		return listenFailure(listen)
	case errors.As(err, &remote):
		return &failure{Exit: exitUsage, Code: "remote", Message: err.Error(), Err: err,
			Hint: "in a network that you trust: --allow-remote; else --listen 127.0.0.1:7682 and a tunnel"}
	case errors.As(err, &launch):
		return &failure{Exit: exitIO, Code: launch.Code, Message: launch.Message, Hint: launch.Hint, Err: err}
	case errors.As(err, &refusal):
		return &failure{Exit: exitFailed, Code: string(refusal.Code), Message: refusal.Message, Hint: refusal.Hint, Field: refusal.Field, Err: err}
	case errors.As(err, &sched):
		return &failure{Exit: exitFailed, Code: sched.Code, Message: sched.Error(), Hint: sched.Hint, Field: sched.Field, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{Exit: exitTimeout, Code: "timeout", Message: "no answer within the timeout", Hint: "give more with --timeout MS", Err: err}
	}
	return &failure{Exit: exitFailed, Code: "failed", Message: err.Error(), Err: err}
}

// fileFailure tells a document that is refused from one that cannot be read.
func fileFailure(file *host.FileError) *failure {
	bare := *file
	bare.Hint = "" // it has its own place
	f := &failure{Exit: exitConfig, Code: "config", Message: bare.Error(), Hint: file.Hint, Err: file}
	if errors.Is(file, fs.ErrNotExist) || errors.Is(file, fs.ErrPermission) || errors.Is(file, syscall.EISDIR) {
		f.Exit, f.Code = exitIO, "io"
	}
	return f
}

// wireFailure words a refusal of the daemon for the command line.
func wireFailure(e *host.WireError) *failure {
	f := &failure{Exit: exitFailed, Code: strings.ToLower(e.Code), Message: e.Message, Hint: e.Detail("hint"), Field: e.Detail("field"), Err: e}
	if reason := e.Detail("reason"); reason != "" {
		f.Code = reason
	}
	if code := e.Detail("code"); code != "" {
		f.Code = code
	}
	switch {
	case f.Code == host.DetailJobNotFound:
		f.Exit = exitNotFound
		f.Message = fmt.Sprintf("Automation not found: %s. Run `rota cron list` to see recent automation ids.", e.Detail("jobId"))
	case f.Code == host.DetailRunNotFound, f.Code == string(job.CodeNotFound):
		f.Exit = exitNotFound
	case f.Code == host.DetailJobChanged, f.Code == string(job.CodeConflict):
		f.Exit = exitConflict
	case e.Code == host.CodeForbidden:
		f.Exit = exitNotAllowed
	case f.Code == host.DetailTokenMismatch, f.Code == host.DetailTokenMissing, f.Code == host.DetailNoIdentity, f.Code == host.DetailAuthLimited:
		f.Exit = exitNotAllowed
		f.Hint = "give that daemon's token with ROTA_TOKEN or --token; it is in the file `token` of its state directory"
	}
	return f
}

// underCron reports whether a verb keeps the exit codes of the cron group.
func underCron(verb *cobra.Command) bool {
	for c := verb; c != nil; c = c.Parent() {
		if c.Name() == "cron" && c.Parent() != nil && !c.Parent().HasParent() {
			return true
		}
	}
	return false
}

func exitCode(verb *cobra.Command, f *failure) int {
	switch {
	case f == nil:
		return 0
	case underCron(verb) && f.Exit != exitInterrupted:
		return exitFailed
	}
	return f.Exit
}

// failureJSON is the error form of --json.
type failureJSON struct {
	OK    bool `json:"ok"`
	Error struct {
		Type    string  `json:"type"`
		Code    string  `json:"code"`
		Message string  `json:"message"`
		Hint    string  `json:"hint,omitempty"`
		Field   string  `json:"field,omitempty"`
		Matches []match `json:"matches,omitempty"`
	} `json:"error"`
}

// report says a failure: always to the person, and in JSON mode also as the
// one document on stdout. The flag is looked for in the words of the command
// line because a line that does not parse may hold it too.
func (a *app) report(verb *cobra.Command, args []string, f *failure) {
	if f.Told {
		return
	}
	if a.alwaysJSON || slices.Contains(args, "--json") {
		var doc failureJSON
		doc.Error.Type = exitTypes[f.Exit]
		if underCron(verb) {
			doc.Error.Type = "cli_error"
		}
		doc.Error.Code, doc.Error.Message, doc.Error.Hint = f.Code, f.Message, f.Hint
		doc.Error.Field, doc.Error.Matches = f.Field, f.Matches
		a.printJSON(doc)
	}
	a.talkf("%s\n", escapeLines(f.Message))
	for _, m := range f.Matches {
		a.talkf("  %s  %s  %s  %s\n", m.ID, escapeText(m.Name), escapeText(m.Schedule), m.Status)
	}
	if f.Hint != "" {
		a.talkf("%s\n", escapeLines(f.Hint))
	}
}
