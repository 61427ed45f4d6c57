//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// crashHook is one request that the receiver got.
type crashHook struct {
	runID    string // the idempotency key
	answered int    // the status it was answered with; 0 while it is not
}

// crashReceiver is where runs of a site send to: the receiver of webhooks, and
// the other end of http payloads. It outlives the daemons, and what it got is
// an effect like a line in a file.
type crashReceiver struct {
	server *httptest.Server

	mu       sync.Mutex // guards below
	hooks    []*crashHook
	requests []*crashHook
}

// newCrashReceiver starts a receiver. Every seventh first send of a run is
// refused for now, and every third answer takes a moment, so that kills find it
// under way.
func newCrashReceiver(t *testing.T) *crashReceiver {
	x := &crashReceiver{}
	x.server = httptest.NewServer(http.HandlerFunc(x.serve))
	t.Cleanup(x.server.Close)
	return x
}

func (x *crashReceiver) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // a sender that dies is what this is about
	hook := &crashHook{runID: r.Header.Get("Idempotency-Key")}
	x.mu.Lock()
	n, again := len(x.hooks), false
	if strings.HasPrefix(r.URL.Path, "/hook") {
		for _, h := range x.hooks {
			again = again || h.runID == hook.runID
		}
		x.hooks = append(x.hooks, hook)
	} else {
		n = len(x.requests)
		x.requests = append(x.requests, hook)
	}
	x.mu.Unlock()
	if n%3 == 0 {
		select {
		case <-time.After(time.Duration(20+n%7*20) * time.Millisecond):
		case <-r.Context().Done():
			return // nobody is left to be answered
		}
	}
	status := http.StatusOK
	if n%7 == 6 && !again && strings.HasPrefix(r.URL.Path, "/hook") {
		status = http.StatusServiceUnavailable
	}
	w.WriteHeader(status)
	if err := http.NewResponseController(w).Flush(); err == nil {
		x.mu.Lock()
		hook.answered = status
		x.mu.Unlock()
	}
}

// seen copies what was got so far.
func (x *crashReceiver) seen() (hooks, requests []crashHook) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range x.hooks {
		hooks = append(hooks, *h)
	}
	for _, h := range x.requests {
		requests = append(requests, *h)
	}
	return hooks, requests
}

// delivery is the part of a job that sends its result to the receiver.
func (x *crashReceiver) delivery() string {
	return fmt.Sprintf(`,"delivery":{"mode":"webhook","to":"%s/hook"}`, x.server.URL)
}

// jobs are those whose effect is a request, and one that fires and sends.
func (x *crashReceiver) jobs() []string {
	return []string{
		fmt.Sprintf(`{"name":"every-second-sent","schedule":{"kind":"every","everyMs":1000,"anchorMs":1700000000493},"payload":%s%s}`,
			crashCommand(crashQuick+crashSays), x.delivery()),
		fmt.Sprintf(`{"name":"every-second-request","schedule":{"kind":"every","everyMs":1000,"anchorMs":1700000000771},`+
			`"payload":{"kind":"http","url":"%s/request","method":"POST","body":"{}"}}`, x.server.URL),
	}
}

// crashSays makes a command's result worth sending.
const crashSays = `; echo done`

// Faults of sending.
const (
	crashSentEarly  = "sent-early"    // sent before its result was committed
	crashSentTwice  = "sent-twice"    // sent again after it was answered well, or may have arrived
	crashNotSent    = "not-sent"      // called delivered, and never answered well
	crashDenied     = "denied"        // called not delivered, or unknown, without a reason
	crashUndecided  = "undecided"     // ended well, and nothing is said of its delivery
	crashOutboxLeft = "result-forgot" // a kept result without an open run
)

// judgeSends holds what the receiver got against what the ledger says.
func (f *crashFacts) judgeSends(v *crashVerdict, ends map[string]crashRunRow) {
	kept := map[string]bool{}
	for _, r := range f.ledger.receipts {
		kept[r.runID] = kept[r.runID] || r.status == "running" && f.ledger.outbox[r.id]
	}
	good, refused, lastAnswer := map[string]int{}, map[string]int{}, map[string]int{}
	for _, h := range f.hooks {
		if last, again := lastAnswer[h.runID]; again && last != http.StatusServiceUnavailable {
			v.add(crashSentTwice, "run %s, the last send was answered with %d", h.runID, last)
		}
		lastAnswer[h.runID] = h.answered
		switch h.answered {
		case http.StatusOK:
			good[h.runID]++
		case http.StatusServiceUnavailable:
			refused[h.runID]++
		}
		end, ended := ends[h.runID]
		if ended && end.Interrupted != nil || !ended && !kept[h.runID] {
			v.add(crashSentEarly, "run %s of job %s: ended %v, kept %v", h.runID, end.JobID, ended, kept[h.runID])
		}
	}
	for id, r := range ends {
		if r.Status != "ok" || !f.ledger.jobs[r.JobID].sends {
			continue
		}
		switch r.DeliveryStatus {
		case "delivered":
			if good[id] == 0 {
				v.add(crashNotSent, "run %s of job %s", id, r.JobID)
			}
		case "unknown":
			f.unknown++
		default: // the receiver refuses each run at most once, and attempts are left
			v.add(crashDenied, "run %s of job %s is %q: %s; answered well %d times, refused %d times",
				id, r.JobID, r.DeliveryStatus, r.DeliveryError, good[id], refused[id])
		}
	}
	for id := range f.ledger.outbox {
		if !f.ledger.openReceipt(id) {
			v.add(crashOutboxLeft, "receipt %s", id)
		}
	}
	if f.unknown > f.kills*crashOpenAtOnce {
		v.add(crashDenied, "%d deliveries are unknown after %d kills", f.unknown, f.kills)
	}
}

// crashOpenAtOnce is how many deliveries one kill can cut off from their
// answers: one for each job that sends.
const crashOpenAtOnce = crashClients + 1

// judgeRequests holds http payloads against the ledger: each run asks once, and
// a good one was answered.
func (f *crashFacts) judgeRequests(v *crashVerdict, ends map[string]crashRunRow) {
	active := map[string]bool{}
	for _, r := range f.ledger.receipts {
		if r.status == "running" && f.ledger.jobs[r.jobID].state.RunningReceiptID == r.id {
			active[r.runID] = true
		}
	}
	seen := map[string]bool{}
	for _, h := range f.requests {
		if seen[h.runID] {
			v.add(crashEffectTwice, "request of run %s", h.runID)
		}
		seen[h.runID] = true
		if _, ended := ends[h.runID]; !ended && !active[h.runID] {
			v.add(crashUncommitted, "request of run %s", h.runID)
		}
	}
	for id, r := range ends {
		if r.Status == "ok" && f.ledger.jobs[r.JobID].requests && !seen[id] {
			v.add(crashNoEffect, "request of run %s", id)
		}
	}
}

func (l *crashLedger) openReceipt(id string) bool {
	for _, r := range l.receipts {
		if r.id == id && r.status == "running" {
			return true
		}
	}
	return false
}
