//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A daemon that is asked to stop does so, whoever is connected and however
// they behave.
func TestCase132AStopWaitsForNobody(t *testing.T) {
	for _, c := range []struct {
		name   string
		attach func(s *stallSite)
	}{
		{"idle", func(*stallSite) {}},
		{"a silent connection", func(s *stallSite) { s.line() }},
		{"half a request", func(s *stallSite) {
			if _, err := s.line().Write([]byte(`{"type":"req","id":"1","meth`)); err != nil {
				s.t.Fatal(err)
			}
		}},
		{"an event stream", func(s *stallSite) {
			l := s.stalledSubscriber()
			go func() { _, _ = io.Copy(io.Discard, l.r) }()
		}},
		{"an event stream nobody reads", func(s *stallSite) { s.stalledSubscriber().awaitFull() }},
		{"a caller that never reads", func(s *stallSite) {
			l, _ := s.hungCaller()
			l.awaitFull()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStallSite(t, `{}`)
			s.start(nil)
			id := s.add("edited", hourly, "true")
			for n := range 700 { // more events than a connection and its queues hold
				s.ask(s.client, "cron.update", fmt.Sprintf(`{"id":%q,"patch":{"name":"edit %d %s"}}`, id, n, strings.Repeat("x", 40)), nil)
			}
			c.attach(s)
			s.stop()
			first := s.proc.cmd.Process.Pid
			s.start(nil)
			if s.proc.cmd.Process.Pid == first {
				t.Error("the next daemon has the pid of the last")
			}
			if n := s.jobCount(); n != 1 {
				t.Errorf("%d jobs after the restart", n)
			}
		})
	}
}

// Finished runs are told on standard output. A pipe that nobody empties keeps
// the daemon neither from working nor from stopping.
func TestCase132AStopDoesNotWaitForAFullPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	s := newStallSite(t, `{}`)
	s.start(w)
	w.Close()
	const runs = 120 // of which each line is longer than 40 bytes
	id := s.add("talks", hourly, "true")
	for n := range runs {
		s.ask(s.client, "cron.run", fmt.Sprintf(`{"id":%q,"requestKey":"%d"}`, id, n), nil)
		stallAwait(t, "the run", func() bool {
			var page struct{ Total int }
			s.ask(s.client, "cron.runs", `{"limit":1}`, &page)
			return page.Total > n
		})
	}
	s.stop()
}

// A second signal does not wait for the grace that the first one gave.
func TestCase132TheSecondSignalEndsAtOnce(t *testing.T) {
	s := newStallSite(t, `{}`)
	s.start(nil, "--grace", "30s")
	var run struct{ RunID string }
	s.ask(s.client, "cron.run", `{"id":"`+s.add("stubborn", hourly, "sh", "-c", "trap '' TERM; sleep 60")+`"}`, &run)
	stallAwait(t, "the run", func() bool {
		var logs struct{ Running bool }
		s.ask(s.client, "rota.logs", `{"runId":"`+run.RunID+`"}`, &logs)
		return logs.Running
	})
	s.client.Close()
	s.proc.signal(t)
	stallAwait(t, "a host that has stopped", func() bool { _, err := os.Stat(s.sock); return err != nil })
	again := s.proc.signal(t)
	select {
	case <-s.proc.ended:
	case <-time.After(stallPatience):
		t.Fatal("the daemon does not stop")
	}
	if d := time.Since(again); d > time.Second {
		t.Errorf("ended %v after the second signal", d)
	}
	s.start(nil) // what it left is settled, and the daemon serves
	if got := s.history(""); len(got) != 1 || got[0].Status != "error" {
		t.Errorf("the history has %+v", got)
	}
}
