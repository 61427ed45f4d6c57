//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func (c *cli) add(args ...string) (id string) {
	c.t.Helper()
	p := c.run(append([]string{"cron", "add", "--every", "1d", "--json"}, args...)...)
	if p.exit != 0 {
		c.t.Fatalf("add: %s", p.err)
	}
	value, _ := member(oneDocument(c.t, p.out), "id")
	return fmt.Sprint(value)
}

// With the daemon up, --json is one document, or JSON Lines for a stream.
func TestCase045JSONIsOneDocumentWithADaemon(t *testing.T) {
	c := newCLI(t)
	c.serve()
	id := c.add("--name", "j", "--command", "echo out; echo err >&2")
	runID, _ := member(oneDocument(t, c.run("cron", "run", id, "--wait", "--json").out), "runId")
	for _, args := range [][]string{
		{"cron", "status"}, {"cron", "list"}, {"cron", "list", "--all"}, {"cron", "get", id}, {"cron", "show", "j"}, {"cron", "runs"}, {"cron", "runs", id},
		{"cron", "logs", fmt.Sprint(runID)}, {"cron", "logs", "--follow", fmt.Sprint(runID)}, {"cron", "disable", id}, {"cron", "enable", id}, {"cron", "edit", id, "--name", "k"},
		{"why", "k"}, {"cron", "stop", "nothing"}, {"cron", "rm", id}, {"version"}, {"next", "0 9 * * *"},
	} {
		p := c.run(append(args, "--json")...)
		oneDocument(t, p.out)
	}
	p := c.run("events", "--json")
	lines := strings.Split(strings.TrimSpace(p.out), "\n")
	if len(lines) < 4 {
		t.Errorf("only %d events", len(lines))
	}
	var last float64
	for _, line := range lines {
		seq, _ := member(oneDocument(t, line), "seq")
		if n, _ := seq.(float64); n <= last {
			t.Errorf("seq %v after %v", n, last)
		} else {
			last = n
		}
	}
}

// A result of 300 KB goes through a pipe whole, whatever the reader's pace, and
// the exit code is that of the run.
func TestCase047LongResultsThroughAPipe(t *testing.T) {
	c := newCLI(t)
	c.serve()
	for _, variant := range []struct {
		name, command string
		exit          int
		status        string
	}{
		{"good", `head -c 300000 /dev/zero | tr '\0' x`, 0, "ok"},
		{"failing", `head -c 300000 /dev/zero | tr '\0' x; exit 3`, 1, "error"},
	} {
		t.Run(variant.name, func(t *testing.T) {
			c.t = t
			id := c.add("--name", variant.name, "--command", variant.command, "--output-max-bytes", "400000")
			cmd := c.command("cron", "run", id, "--wait", "--json")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdout = w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			// The reader begins when the pipe is full: the writer waits for it.
			if _, err := bufio.NewReaderSize(r, 16).Peek(16); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			var doc struct {
				Run struct{ Status, Summary string }
			}
			whole := "{\n  \"ok\": true,\n" // Peek took what is known
			if err := json.Unmarshal([]byte(whole[:16]+string(rest)), &doc); err != nil {
				t.Fatalf("%d bytes are no document: %v", len(rest), err)
			}
			if got := cmd.ProcessState.ExitCode(); got != variant.exit || doc.Run.Status != variant.status || len(doc.Run.Summary) < 300_000 {
				t.Errorf("exit %d, status %s, %d bytes", got, doc.Run.Status, len(doc.Run.Summary))
			}
		})
	}
}

// A reader that leaves early is no accident: no trace of a panic, and no hang.
func TestCase047AReaderThatLeavesEarly(t *testing.T) {
	c := newCLI(t)
	c.serve()
	id := c.add("--name", "early", "--command", `head -c 300000 /dev/zero | tr '\0' x`, "--output-max-bytes", "400000")
	cmd := c.command("cron", "run", id, "--wait", "--json")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var talk strings.Builder
	cmd.Stdout, cmd.Stderr = w, &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(cliPatience):
		t.Fatal("it hangs")
	}
	if strings.Contains(talk.String(), "panic") || strings.Contains(talk.String(), "goroutine") {
		t.Errorf("stderr: %s", talk.String())
	}
}

// What a job printed or is called cannot steer the terminal.
func TestCase087NoEscapeReachesTheTerminal(t *testing.T) {
	c := newCLI(t)
	c.serve()
	id := c.add("--name", "<img src=x onerror=alert(1)>", "--command", `printf '\033[31mred\033[0m \302\233 </script>\007'; exit 1`)
	runID, _ := member(oneDocument(t, c.run("cron", "run", id, "--wait").out), "runId")
	for _, args := range [][]string{
		{"cron", "list"}, {"cron", "show", id}, {"cron", "runs", id}, {"cron", "logs", fmt.Sprint(runID)}, {"cron", "list", "--json"},
		{"cron", "logs", fmt.Sprint(runID), "--json"}, {"cron", "get", id}, {"why", id}, {"events"}, {"cron", "get", "\x1b[31m"}, {"cron", "nosuch\x1b[31m"},
	} {
		p := c.run(args...)
		if strings.ContainsAny(p.out+p.err, "\x1b\x07\u009b") {
			t.Errorf("%v prints a control character: %q %q", args, p.out, p.err)
		}
	}
	colored := c.run("cron", "list", "--color", "always")
	ours := strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "").Replace(colored.out)
	if ours == colored.out || strings.ContainsRune(ours, '\x1b') {
		t.Errorf("with colour: %q", colored.out)
	}
	if p := c.run("cron", "logs", fmt.Sprint(runID)); !strings.Contains(p.out, `\x1b[31mred`) || !strings.Contains(p.out, "</script>") {
		t.Errorf("the output is not shown as text: %q", p.out)
	}
	text, _ := member(oneDocument(t, c.run("cron", "logs", fmt.Sprint(runID), "--json").out), "text")
	if got := fmt.Sprint(text); !strings.Contains(got, "\x1b[31mred\x1b[0m \u009b </script>\a") {
		t.Errorf("JSON does not keep the output as it was: %q", got)
	}
}

// Status names the open database, by flag, by environment and through a link.
func TestCase115StatusNamesTheStore(t *testing.T) {
	c := newCLI(t)
	if err := os.WriteFile(filepath.Join(c.dir, "jobs.json"), []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.serve()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(c.dir, link); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(c.dir, "rota.sqlite")
	bare := []string{}
	for _, pair := range c.env {
		if !strings.HasPrefix(pair, "ROTA_STATE_DIR=") {
			bare = append(bare, pair)
		}
	}
	for name, how := range map[string]struct {
		env  []string
		args []string
	}{
		"environment": {c.env, nil},
		"flag":        {bare, []string{"--state-dir", c.dir}},
		"link":        {bare, []string{"--state-dir", link}},
	} {
		c.env = how.env
		p := c.run(append([]string{"cron", "status"}, how.args...)...)
		doc := oneDocument(t, p.out)
		store, _ := member(doc, "storePath")
		if sqlite, _ := member(doc, "sqlitePath"); store != want || sqlite != want {
			t.Errorf("by %s: %v and %v, want %s", name, store, sqlite, want)
		}
	}
}

func TestCase127OneShotInThePastByCommandLine(t *testing.T) {
	c := newCLI(t)
	c.serve()
	past := c.run("cron", "add", "--name", "p", "--at", "2020-01-01T00:00:00Z", "--command", "true", "--json")
	message, _ := member(oneDocument(t, past.out), "error.message")
	if past.exit != 1 || !strings.HasPrefix(fmt.Sprint(message), "schedule.at is in the past: 2020-01-01T00:00:00.000Z (") {
		t.Errorf("a year ago: exit %d, %v", past.exit, message)
	}
	if p := c.run("cron", "add", "--name", "f", "--at", "2199-01-01T00:00:00Z", "--command", "true"); p.exit != 1 {
		t.Errorf("in a hundred years: exit %d", p.exit)
	}
	now := c.run("cron", "add", "--name", "n", "--at", "+0s", "--command", "true", "--json")
	at, _ := member(oneDocument(t, now.out), "schedule.at")
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", fmt.Sprint(at)); now.exit != 0 || err != nil {
		t.Errorf("now: exit %d, at %v", now.exit, at)
	}
}

func TestCase128NamesInTables(t *testing.T) {
	c := newCLI(t)
	c.serve()
	odd := "Überprüfung 日本語 🚀 `x` $(x) <b>"
	for _, name := range []string{odd, "plain", strings.Repeat("日本", 20)} {
		c.add("--name", name, "--command", "true")
	}
	p := c.run("cron", "list")
	lines := strings.Split(strings.TrimRight(p.out, "\n"), "\n")
	column := -1
	for _, line := range lines[1:] {
		before, _, ok := strings.Cut(line, "every 1d")
		if !ok {
			t.Fatalf("no schedule in %q", line)
		}
		if at := cellsOf(before); column < 0 {
			column = at
		} else if at != column {
			t.Errorf("the schedule begins at cell %d and %d:\n%s", column, at, p.out)
		}
	}
	shown := c.run("cron", "show", odd, "--json")
	if name, _ := member(oneDocument(t, shown.out), "name"); name != odd {
		t.Errorf("show by name gives %v", name)
	}
	for _, bad := range []string{"a\nb", "", "   ", strings.Repeat("x", 10_000)} {
		if p := c.run("cron", "add", "--every", "1d", "--command", "true", "--name", bad); p.exit != 1 {
			t.Errorf("name %.20q: exit %d", bad, p.exit)
		}
	}
}

// A stream that is followed shows what happens, and ends with 130 when it is
// interrupted.
func TestEventsFollowUntilInterrupted(t *testing.T) {
	c := newCLI(t)
	c.serve()
	cmd := c.command("events", "--follow", "--since", "0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	lines := make(chan string, 100)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
	}()
	id := c.add("--name", "live", "--command", "true")
	timeout := time.After(cliPatience)
	for seen := false; !seen; {
		select {
		case line := <-lines:
			seen = strings.Contains(line, id) && strings.Contains(line, "job.added")
		case <-timeout:
			t.Fatal("the new job was never shown")
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for range lines {
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("ended with %v", err)
	}
}

// --follow ends with its run, and prints everything once.
func TestLogsFollowARun(t *testing.T) {
	c := newCLI(t)
	c.serve()
	gate := filepath.Join(c.dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	id := c.add("--name", "talker", "--timeout-seconds", "60", "--command", `echo first; cat "`+gate+`"; echo last`)
	runID, _ := member(oneDocument(t, c.run("cron", "run", id).out), "runId")
	cmd := c.command("cron", "logs", "--follow", fmt.Sprint(runID))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len("first"))
	if _, err := io.ReadFull(out, first); err != nil || string(first) != "first" {
		t.Fatalf("%q %v", first, err)
	}
	if err := os.WriteFile(gate, []byte("middle\n"), 0o600); err != nil { // the run waits at the gate until now
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil || string(rest) != "\nmiddle\nlast\n" {
		t.Errorf("then %q %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Stopping a run ends it, and its entry says by whom.
func TestStopAnActiveRun(t *testing.T) {
	c := newCLI(t)
	c.serve()
	id := c.add("--name", "long", "--command", "echo on; exec sleep 600")
	runID, _ := member(oneDocument(t, c.run("cron", "run", id).out), "runId")
	if p := c.run("cron", "stop", fmt.Sprint(runID)); p.exit != 0 {
		t.Fatalf("stop: %s", p.err)
	}
	c.run("cron", "logs", "--follow", fmt.Sprint(runID)) // returns at its end
	entry := oneDocument(t, c.run("cron", "runs", id, "--run-id", fmt.Sprint(runID)).out)
	if status, _ := member(entry, "entries.0.status"); status == "ok" || status == nil {
		t.Errorf("the entry says %v", status)
	}
}
