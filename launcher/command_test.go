//go:build unix

package launcher

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// script is one block of commands.txt.
type script struct {
	name    string
	payload job.CommandPayload
	files   []func(dir string) error
	want    [][2]string // field, value
}

func TestHowCommandsEnd(t *testing.T) {
	for _, s := range readScripts(t, "../testdata/launcher/commands.txt") {
		t.Run(s.name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, write := range s.files {
				if err := write(dir); err != nil {
					t.Fatal(err)
				}
			}
			s.payload.Cwd = strings.ReplaceAll(s.payload.Cwd, "DIR", dir)
			d := newDesk(t, Options{})
			d.command(s.payload)
			o := d.outcome()
			for _, w := range s.want {
				want := strings.ReplaceAll(w[1], "DIR", dir)
				if got := outcomeField(t, &o, w[0]); got != want {
					t.Errorf("%s: got %q, want %q", w[0], got, want)
				}
			}
		})
	}
}

// outcomeField shows one field as the script writes it.
func outcomeField(t *testing.T, o *worker.Outcome, name string) string {
	t.Helper()
	entry := o.Diagnostics[0]
	switch name {
	case "status":
		return string(o.Status)
	case "kind":
		return o.Kind
	case "error":
		return o.Error
	case "errorReason":
		return o.ErrorReason
	case "summary":
		return o.Summary
	case "exitCode":
		if entry.ExitCode == nil {
			return "none"
		}
		return strconv.Itoa(*entry.ExitCode)
	case "diagnostic":
		return entry.Source + " " + entry.Severity + ": " + entry.Message
	case "truncated":
		return strconv.FormatBool(entry.Truncated)
	case "stdoutBytes":
		return fmt.Sprint(o.Output.StdoutBytes)
	case "stderrBytes":
		return fmt.Sprint(o.Output.StderrBytes)
	case "droppedBytes":
		return fmt.Sprint(o.Output.DroppedBytes)
	}
	t.Fatalf("commands.txt names the field %q, which is none", name)
	return ""
}

// readScripts parses blocks that are separated by blank lines.
func readScripts(t *testing.T, path string) []script {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []script
	var now *script
	expecting := false
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		line := in.Text()
		key, value, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			now, expecting = nil, false
		case now == nil:
			all = append(all, script{name: line})
			now = &all[len(all)-1]
		case line == "=>":
			expecting = true
		case expecting:
			now.want = append(now.want, [2]string{key, unquoted(value)})
		default:
			if err := now.given(key, value); err != nil {
				t.Fatalf("%s:%d: %v", path, n, err)
			}
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("%s: only %d blocks were read", path, len(all))
	}
	return all
}

func (s *script) given(key, value string) (err error) {
	switch key {
	case "argv":
		err = json.Unmarshal([]byte(value), &s.payload.Argv)
		for i, arg := range s.payload.Argv {
			s.payload.Argv[i] = strings.ReplaceAll(arg, "LONG", strings.Repeat("long ", 1000))
		}
	case "input":
		s.payload.Input = unquoted(value)
	case "cwd":
		s.payload.Cwd = value
	case "timeoutMs":
		s.payload.TimeoutMs, err = strconv.ParseInt(value, 10, 64)
	case "noOutputTimeoutMs":
		s.payload.NoOutputTimeoutMs, err = strconv.ParseInt(value, 10, 64)
	case "outputMaxBytes":
		s.payload.OutputMaxBytes, err = strconv.ParseInt(value, 10, 64)
	case "file":
		fields := strings.SplitN(value, " ", 3)
		mode, badMode := strconv.ParseUint(fields[1], 8, 32)
		s.files = append(s.files, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, fields[0]), []byte(unquoted(fields[2])), os.FileMode(mode))
		})
		err = badMode
	default:
		err = fmt.Errorf("unknown word %q", key)
	}
	return err
}

// unquoted reads a JSON string; what is none stands for itself.
func unquoted(s string) string {
	var text string
	if json.Unmarshal([]byte(s), &text) == nil {
		return text
	}
	return s
}

// The life of a command as a table, against the document that shows it.
func TestTheLifeOfACommandIsDocumented(t *testing.T) {
	phases := []string{"running", "draining", "terminating", "sweeping", "killing", "over"}
	inputs := []string{"leaderEnded", "outputEnded", "cutNow", "nobodyLives", "limitReached"}
	acts := []string{"", ", TERM", ", KILL"}
	var b strings.Builder
	for p := running; p < over; p++ {
		for in := leaderEnded; in <= limitReached; in++ {
			if s, ok := steps[p][in]; ok {
				fmt.Fprintf(&b, "%-11s  %-12s  -> %s%s\n", phases[p], inputs[in], phases[s.to], acts[s.do])
			}
		}
	}
	want, err := os.ReadFile("../testdata/launcher/command-life.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(want), "\n\n")
	if b.String() != table {
		t.Errorf("command-life.txt shows\n%s\nand the code has\n%s", table, b.String())
	}
	// No phase but the command's own running time can last for ever, none comes
	// back, and whoever is killed was asked first.
	for p := draining; p < over; p++ {
		s, bounded := steps[p][limitReached]
		if !bounded || s.to <= p {
			t.Errorf("%s is not bounded", phases[p])
		}
	}
	for p, row := range steps {
		for in, s := range row {
			if s.to <= p {
				t.Errorf("%s goes back at %s", phases[p], inputs[in])
			}
			if s.do == forceToEnd && p < terminating {
				t.Errorf("%s kills at %s without asking first", phases[p], inputs[in])
			}
		}
	}
}
