//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/host"
)

// serveURL starts a daemon with a gateway and gives its url.
func (c *cli) serveURL(args ...string) string {
	c.t.Helper()
	ready := filepath.Join(c.dir, "ready")
	c.serve(append([]string{"--listen", "127.0.0.1:0", "--ready-file", ready}, args...)...)
	var line string
	c.await("the ready file", func() bool {
		raw, err := os.ReadFile(ready)
		line = string(raw)
		return err == nil
	})
	m := regexp.MustCompile(`^ready url=(ws://127\.0\.0\.1:\d+) socket=\S+ db=\S+ jobs=\d+ durability=full\n$`).FindStringSubmatch(line)
	if m == nil {
		c.t.Fatalf("the ready line is %q", line)
	}
	return m[1]
}

// await looks until something is so.
func (c *cli) await(what string, so func() bool) {
	c.t.Helper()
	timeout := time.After(cliPatience)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !so() {
		select {
		case <-look.C:
		case <-timeout:
			c.t.Fatalf("%s: nothing for %v", what, cliPatience)
		}
	}
}

// Every verb works by url, from a directory that has no daemon.
func TestVerbsByURL(t *testing.T) {
	c := newCLI(t)
	url := c.serveURL()
	token, err := host.ReadToken(filepath.Join(c.dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	away := newCLI(t)
	away.env = append(away.env, "ROTA_URL="+url, "ROTA_TOKEN="+token)
	id := away.add("--name", "far", "--command", "echo from far")
	runID, _ := member(oneDocument(t, away.run("cron", "run", id, "--wait", "--json").out), "runId")
	for _, args := range [][]string{
		{"cron", "status"}, {"cron", "list", "--json"}, {"cron", "show", "far", "--json"}, {"cron", "get", id}, {"cron", "runs", id},
		{"cron", "logs", fmt.Sprint(runID)}, {"cron", "logs", "--follow", fmt.Sprint(runID)}, {"cron", "edit", id, "--name", "renamed"},
		{"cron", "disable", id}, {"cron", "enable", id}, {"why", id}, {"events"}, {"cron", "rm", id},
	} {
		if p := away.run(args...); p.exit != 0 {
			t.Errorf("%v: exit %d %s", args, p.exit, p.err)
		}
	}
	here := c.run("cron", "status", "--url", url) // the token of the state directory is tried on this machine
	if here.exit != 0 {
		t.Errorf("without a token: %s", here.err)
	}
}

// What stands in the way of a url is said, with what to do about it.
func TestURLFailures(t *testing.T) {
	c := newCLI(t)
	url := c.serveURL()
	away := newCLI(t)
	for _, x := range []struct {
		args    []string
		exit    int
		message string
	}{
		{[]string{"cron", "list", "--url", url, "--token", "wrong", "--json"}, 1, "unauthorized: gateway token mismatch"},
		{[]string{"events", "--url", url, "--token", "wrong", "--json"}, exitNotAllowed, "unauthorized: gateway token mismatch"},
		{[]string{"events", "--follow", "--url", url, "--token", "wrong", "--json"}, exitNotAllowed, "unauthorized: gateway token mismatch"},
		{[]string{"cron", "list", "--url", url, "--json"}, 1, "there is no token for " + url},
		{[]string{"cron", "list", "--url", "ws://127.0.0.1:1", "--token", "x", "--json"}, 1, "no rota daemon answers at ws://127.0.0.1:1"},
		{[]string{"why", "x", "--url", "ws://127.0.0.1:1", "--token", "x", "--json"}, exitNoServer, "no rota daemon answers at ws://127.0.0.1:1"},
		{[]string{"why", "x", "--url", "ws://192.0.2.1:7682", "--json"}, exitNotAllowed, "there is no token for ws://192.0.2.1:7682"},
		{[]string{"why", "x", "--url", "http://127.0.0.1:1", "--json"}, exitUsage, "http://127.0.0.1:1: must begin with ws://"},
	} {
		p := away.run(x.args...)
		message, _ := member(oneDocument(t, p.out), "error.message")
		hint, _ := member(oneDocument(t, p.out), "error.hint")
		if p.exit != x.exit || !strings.HasPrefix(fmt.Sprint(message), x.message) || hint == nil || !strings.Contains(p.err, x.message) {
			t.Errorf("%v: exit %d, %v, hint %v", x.args, p.exit, message, hint)
		}
	}
}

// An address that cannot be had ends the start, and says why.
func TestServeAddresses(t *testing.T) {
	c := newCLI(t)
	url := c.serveURL()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() { // hangs up on everybody
		for {
			nc, err := other.Accept()
			if err != nil {
				return
			}
			nc.Close()
		}
	}()
	for _, x := range []struct {
		args    []string
		exit    int
		message string
	}{
		{[]string{"--listen", strings.TrimPrefix(url, "ws://")}, exitBusy, "another rota serves"},
		{[]string{"--listen", other.Addr().String()}, exitIO, "another program listens on"},
		{[]string{"--listen", "127.0.0.1:no-port"}, exitIO, "cannot listen on"},
		{[]string{"--listen", "0.0.0.0:0"}, exitUsage, "can be reached from other machines"},
		{[]string{"--token", "x"}, exitUsage, "serve is not a client"},
	} {
		p := newCLI(t).run(append([]string{"serve"}, x.args...)...)
		if p.exit != x.exit || !strings.Contains(p.err, x.message) || !strings.Contains(p.err, "--listen") {
			t.Errorf("%v: exit %d %s", x.args, p.exit, p.err)
		}
	}
}

// A configuration that changes while the daemon serves touches no job; what
// does not parse leaves the last one in force and is told with its line.
func TestCase109ReloadWhileServing(t *testing.T) {
	c := newCLI(t)
	config := filepath.Join(c.dir, "config.json")
	write := func(document string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"cron":{"maxConcurrentRuns":3}}`)
	c.serveURL()
	for i := range 20 {
		c.add("--name", fmt.Sprintf("job %d", i), "--command", "true")
	}
	client, err := host.Dial(filepath.Join(c.dir, "rota.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	info := func() (v struct {
		Jobs   int
		Config host.ConfigState
	}) {
		t.Helper()
		if err := client.Call(t.Context(), "rota.info", nil, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	write(`{"cron":{"maxConcurrentRuns":5}}`)
	if err := c.daemon.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	c.await("the new document", func() bool { return info().Config.Version == 2 })
	write("{\"cron\":{\n\"maxConcurrentRuns\":6,}}")
	c.await("the broken document", func() bool { return strings.Contains(info().Config.Error, "config.json:2: ") })
	if v := info(); v.Config.Version != 2 || v.Jobs != 20 {
		t.Errorf("in force is version %d, with %d jobs", v.Config.Version, v.Jobs)
	}
	write(`{"cron":{"maxConcurrentRuns":7,"durability":"normal"}}`)
	c.await("the mended document", func() bool { return info().Config.Version == 3 })
	if v := info(); fmt.Sprint(v.Config.AtNextStart) != "[cron.durability]" || v.Config.Error != "" || v.Jobs != 20 {
		t.Errorf("told %+v, with %d jobs", v.Config, v.Jobs)
	}
}

// The wait for a run is bounded by real time, over the gateway too, and the run
// goes on.
func TestCase075WaitByURLEndsInTime(t *testing.T) {
	c := newCLI(t)
	url := c.serveURL()
	id := c.add("--name", "long", "--command", "exec sleep 600")
	began := time.Now()
	p := c.run("cron", "run", id, "--url", url, "--wait", "--wait-timeout", "1s", "--json")
	if took := time.Since(began); took < time.Second || took > 20*time.Second {
		t.Errorf("waited %v", took)
	}
	message, _ := member(oneDocument(t, p.out), "error.message")
	runID, waited := strings.CutPrefix(fmt.Sprint(message), "timed out waiting for cron run ")
	if p.exit != 1 || !waited {
		t.Fatalf("exit %d: %v", p.exit, message)
	}
	var logs struct{ Running bool }
	if err := json.Unmarshal([]byte(c.run("cron", "logs", runID, "--json").out), &logs); err != nil || !logs.Running {
		t.Errorf("the run does not go on: %v", err)
	}
	if p := c.run("cron", "stop", runID, "--url", url); p.exit != 0 {
		t.Errorf("stop: %s", p.err)
	}
}

// Whoever follows the events sees each once, also over a restart of the daemon.
func TestEventsFollowOverARestart(t *testing.T) {
	c := newCLI(t)
	stop := c.serve()
	cmd := c.command("events", "--follow", "--since", "0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	type event struct {
		Seq   int64
		Kind  string
		JobID string
	}
	events := make(chan event, 1000)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			var ev event
			if err := json.Unmarshal(s.Bytes(), &ev); err != nil {
				t.Errorf("%v in %s", err, s.Text())
			}
			events <- ev
		}
	}()
	var seen []event
	until := func(id string) {
		t.Helper()
		timeout := time.After(cliPatience)
		for {
			select {
			case ev := <-events:
				seen = append(seen, ev)
				if ev.Kind == "job.added" && ev.JobID == id {
					return
				}
			case <-timeout:
				t.Fatalf("job %s was never shown", id)
			}
		}
	}
	until(c.add("--name", "first life", "--command", "true"))
	stop()
	c.serve()
	until(c.add("--name", "second life", "--command", "true"))
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var want []event
	for line := range strings.Lines(c.run("events").out) {
		var ev event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		want = append(want, ev)
	}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("followed %v\nthe ledger has %v", seen, want)
	}
}

// Whoever waits for a run, or follows what it prints, hears of its end although
// the daemon stopped meanwhile.
func TestARunIsAwaitedOverARestart(t *testing.T) {
	c := newCLI(t)
	stop := c.serve("--grace", "0s")
	id := c.add("--name", "long", "--command", "echo begun; sleep 600")
	start := func(args ...string) (ended <-chan error, printed func() string) {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd := c.command(args...)
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		end := make(chan error, 1)
		go func() { end <- cmd.Wait() }()
		return end, func() string {
			raw, err := os.ReadFile(out.Name())
			if err != nil {
				t.Error(err)
			}
			return string(raw)
		}
	}
	waited, result := start("cron", "run", id, "--wait", "--poll-interval", "50ms", "--json")
	var runID string
	c.await("the start of the run", func() bool {
		m := regexp.MustCompile(`"kind":"run.started".*"runId":"([^"]+)"`).FindStringSubmatch(c.run("events").out)
		if m != nil {
			runID = m[1]
		}
		return m != nil
	})
	followed, logs := start("cron", "logs", runID, "--follow")
	c.await("what the run prints", func() bool { return strings.Contains(logs(), "begun") })
	stop()
	c.serve()
	for _, end := range []<-chan error{waited, followed} {
		select {
		case <-end:
		case <-time.After(cliPatience):
			t.Fatal("the end of the run was never told")
		}
	}
	doc := oneDocument(t, result())
	if status, _ := member(doc, "status"); status != "error" {
		t.Errorf("the awaited run ended %v", doc)
	}
	if reason, _ := member(doc, "run.interrupted.reason"); reason == nil {
		t.Errorf("the awaited run was interrupted: %v", doc)
	}
}

// Why a connection was lost is told in the words of whoever ended it.
func TestCase087NoEscapeComesFromTheOtherEnd(t *testing.T) {
	c := newCLI(t)
	daemon, err := net.Listen("unix", filepath.Join(c.dir, "rota.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	go func() {
		nc, err := daemon.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		if _, err := bufio.NewReader(nc).ReadString('\n'); err != nil {
			t.Errorf("no request: %v", err)
		}
		fmt.Fprintln(nc, `{"type":"res","id":"1","ok":true,"payload":{"subscribed":true,"since":0,"seq":0}}`)
		fmt.Fprintln(nc, `{"type":"res","id":"-","ok":false,"error":{"code":"UNAVAILABLE","message":"bye \u001b[31mred","retryable":true}}`)
	}()
	cmd := c.command("events", "--follow")
	talk, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(talk).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "the connection is lost: bye ") || strings.Contains(line, "\x1b") {
		t.Errorf("told %q, %v", line, err)
	}
}
