package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rota-scheduler/rota/host"
	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// finishedLine is the line of one run that ended: TIME JOB STATUS DURATION,
// then what went wrong, if anything did. It is "" when the event has no entry.
func finishedLine(e worker.Event) string {
	var entry struct {
		TsMs        int64  `json:"ts"`
		DurationMs  int64  `json:"durationMs"`
		Error       string `json:"error"`
		JobName     string `json:"jobName"`
		Delivery    string `json:"deliveryStatus"`
		Undelivered string `json:"deliveryError"`
	}
	if err := json.Unmarshal(e.Detail, &entry); err != nil {
		return "" // the ledger has it; this line is a convenience
	}
	name := e.JobID
	if entry.JobName != "" {
		name = entry.JobName
	}
	line := fmt.Sprintf("%s %s %s %s", time.UnixMilli(entry.TsMs).Format("2006-01-02T15:04:05.000-07:00"), escapeText(name),
		e.Status, time.Duration(entry.DurationMs)*time.Millisecond)
	if entry.Error != "" {
		line += "  " + escapeText(entry.Error)
	}
	if entry.Undelivered != "" && entry.Undelivered != entry.Error {
		line += fmt.Sprintf("  delivery %s: %s", entry.Delivery, escapeText(entry.Undelivered))
	}
	return line + "\n"
}

// locateJob gives a refusal of one job of a file its line.
func locateJob(f host.JobsFile, err error) error {
	var refusal *job.Error
	if !errors.As(err, &refusal) {
		return err
	}
	rest, ok := strings.CutPrefix(refusal.Field, "/jobs/")
	digits, field, _ := strings.Cut(rest, "/")
	index, convErr := strconv.Atoi(digits)
	if !ok || convErr != nil || index >= len(f.Lines) {
		return err
	}
	where := fmt.Sprintf("%s:%d", f.File, f.Lines[index])
	if field != "" {
		where += ": /" + field
	}
	return &failure{Exit: exitConfig, Code: string(refusal.Code), Message: where + ": " + refusal.Message, Hint: refusal.Hint,
		Field: refusal.Field, Err: err}
}

// listenFailure says who holds an address and what to do about it.
func listenFailure(e *host.ListenError) *failure {
	f := &failure{Exit: exitIO, Code: "listen", Message: e.Error(), Err: e,
		Hint: "--listen HOST:PORT names another address, --listen 127.0.0.1:0 picks a free port, --listen '' serves the socket alone"}
	if e.Rota {
		f.Exit, f.Code = exitBusy, "held"
	}
	return f
}
