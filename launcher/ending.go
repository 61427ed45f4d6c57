package launcher

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rota-scheduler/rota/worker"
)

// maxDiagnosticRunes bounds one diagnostic message.
const maxDiagnosticRunes = 1000

// refusalText makes a sentence of the live check's word.
func refusalText(refusal string) string {
	switch refusal {
	case "disabled":
		return "not started: the job was disabled"
	case "removed":
		return "not started: the job was removed"
	}
	return "not started: " + refusal
}

// failedToStart is the outcome of a run whose effect never began.
func failedToStart(err error) worker.Outcome {
	o := worker.Outcome{Status: worker.StatusError, Kind: worker.KindSpawnError, ErrorReason: "unknown", Error: err.Error()}
	message := o.Error
	if e := (*Error)(nil); errors.As(err, &e) {
		o.Error = e.Message
		if e.Err != nil {
			o.Error += ": " + e.Err.Error()
		}
	}
	text, cut := bounded(message)
	o.Diagnostics = []worker.Diagnostic{{Source: "cron-setup", Severity: "error", Message: text, Truncated: cut}}
	return o
}

// cutShort is the outcome of a run that was ended from outside.
func cutShort(stop *Stop) worker.Outcome {
	o := worker.Outcome{Status: worker.StatusError, Kind: stop.Kind, ErrorReason: "unknown",
		Error: cmp.Or(stop.Message, "the run was stopped")}
	if stop.Kind == worker.KindShutdown {
		o.Interrupted = interruptedByShutdown
	}
	return o
}

// commandEnding is everything a command's outcome is made from.
type commandEnding struct {
	argv      []string
	cut       *cut // nil if it ended by itself
	exitCode  *int // nil if there is none
	signal    string
	abandoned bool // it did not end, even after KILL
	output    *Output
}

// outcome tells how a command ended. It is a function of its argument alone.
func (e *commandEnding) outcome() worker.Outcome {
	o := worker.Outcome{Status: worker.StatusError, ErrorReason: "unknown"}
	switch {
	case e.cut != nil && e.cut.stop != nil:
		o = cutShort(e.cut.stop)
	case e.cut != nil && e.cut.silent:
		o.Kind, o.ErrorReason = worker.KindNoOutputTimeout, "timeout"
		o.Error = "command printed nothing for " + spanText(e.cut.limitMs)
	case e.cut != nil:
		o.Kind, o.ErrorReason = worker.KindTimeout, "timeout"
		o.Error = "command timed out after " + spanText(e.cut.limitMs)
	case e.signal != "":
		o.Kind = worker.KindSignal
		o.Error = "command was ended by signal " + e.signal
	case e.exitCode != nil && *e.exitCode == 0:
		o = worker.Outcome{Status: worker.StatusOK, Kind: worker.KindExit}
	case e.exitCode != nil:
		o.Kind = worker.KindExit
		o.Error = fmt.Sprintf("command exited with code %d", *e.exitCode)
	default:
		o.Kind = worker.KindExit
		o.Error = "command ended, and the system did not say how"
	}
	if e.abandoned {
		o.Error += "; the system did not end its process, which may still exist"
	}
	counts, text := e.output.result()
	o.Output, o.Summary = &counts, text

	word, severity := "error", "error"
	if o.Status == worker.StatusOK {
		word, severity = "ok", "info"
	}
	message, long := bounded("command " + word + ": " + quoted(e.argv))
	o.Diagnostics = []worker.Diagnostic{{Source: "exec", Severity: severity, Message: message,
		ExitCode: e.exitCode, Truncated: long || counts.DroppedBytes > 0}}
	return o
}

// quoted writes an argument list as JSON strings with spaces between. Long
// arguments are not quoted to their end: the message is bounded anyway.
func quoted(argv []string) string {
	var b strings.Builder
	for i, arg := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		if b.Len() > 4*maxDiagnosticRunes {
			break
		}
		var q bytes.Buffer
		enc := json.NewEncoder(&q)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(arg[:min(len(arg), 4*maxDiagnosticRunes)]); err != nil {
			return strings.Join(argv, " ") // a string always encodes
		}
		b.WriteString(strings.TrimSuffix(q.String(), "\n"))
	}
	return b.String()
}

// bounded cuts a diagnostic message to its limit and says whether it did.
func bounded(s string) (text string, cut bool) {
	if utf8.RuneCountInString(s) <= maxDiagnosticRunes {
		return s, false
	}
	runes := []rune(s)
	return string(runes[:maxDiagnosticRunes-1]) + "…", true
}

// spanText writes milliseconds as people do: "5s", "1m30s", "10m", "1.5s".
func spanText(ms int64) string {
	s := (time.Duration(ms) * time.Millisecond).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
