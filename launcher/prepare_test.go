//go:build unix

package launcher

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

func asJSON(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// place makes a directory with programs of every unhelpful sort.
func place(t *testing.T) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]struct {
		mode os.FileMode
		text string
	}{
		"bin/tool":       {0o755, "#!/bin/sh\necho tool\n"},
		"bin/locked":     {0o644, "#!/bin/sh\n"},
		"bin/bare":       {0o755, "echo no first line\n"},
		"bin/lost":       {0o755, "#!/no/such/interpreter -x\n"},
		"bin/dos":        {0o755, "#!/bin/sh\r\necho\r\n"},
		"bin/dir/inside": {0o644, ""},
		"later/locked":   {0o755, "#!/bin/sh\necho later\n"},
		"file":           {0o644, ""},
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(file.text), file.mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A daemon under a service manager has a poor PATH. Each way in which a command
// cannot start has its own code, names what was looked for, and says what to
// do; and it is the same on every run.
func TestCase048EachReasonNotToStartHasItsOwnSentence(t *testing.T) {
	dir := place(t)
	for _, c := range []struct{ name, argv0, path, cwd, code, message, hint string }{
		{"not in PATH", "tool", "/usr/bin:/bin", "", "not-found",
			`not found: "tool" is in no directory of PATH (/usr/bin:/bin)`, "--command-env PATH="},
		{"PATH empty", "tool", "", "", "not-found", `not found: PATH is empty, so "tool" cannot be looked up`, "--command-env PATH="},
		{"in PATH, and a directory", "dir", "DIR/bin", "", "not-found", `not found: "dir" is in no directory of PATH (DIR/bin)`, "absolute path"},
		{"no such file", "DIR/bin/none", "/bin", "", "not-found", `not found: there is no file "DIR/bin/none"`, "--command-argv"},
		{"below a file", "DIR/file/none", "/bin", "", "not-found", `not found: there is no file "DIR/file/none"`, "--command-argv"},
		{"no x bit", "DIR/bin/locked", "/bin", "", "not-permitted", `not permitted to execute "DIR/bin/locked": permission denied`, "chmod +x DIR/bin/locked"},
		{"no x bit, by PATH", "locked", "DIR/bin:/bin", "", "not-permitted", `not permitted to execute "DIR/bin/locked": permission denied`, "chmod +x DIR/bin/locked"},
		{"no first line", "bare", "DIR/bin", "", "not-a-program", `"DIR/bin/bare" cannot be run: it has no #! line, or it was built for another machine`, "#!/bin/sh"},
		{"no interpreter", "lost", "DIR/bin", "", "not-a-program",
			`"DIR/bin/lost" cannot be run: the interpreter "/no/such/interpreter -x" of its first line is not there`, "install it"},
		{"Windows line ends", "dos", "DIR/bin", "", "not-a-program",
			`"DIR/bin/dos" cannot be run: the interpreter "/bin/sh\r" of its first line is not there`, "Windows line ends"},
		{"relative PATH entry", "tool", "/bin:bin", "DIR", "relative-path",
			`"tool" was found only through the relative PATH entry "bin", and such entries are not used`, "absolute path"},
		{"empty PATH entry", "tool", "/bin::/usr/bin", "DIR/bin", "relative-path",
			`"tool" was found only through the relative PATH entry ".", and such entries are not used`, "./tool"},
		{"relative directory", "true", "/bin", "some/where", "bad-cwd", `bad working directory "some/where": it is not absolute`, "--command-cwd"},
		{"missing directory", "true", "/bin", "DIR/none", "bad-cwd", `bad working directory "DIR/none": it does not exist`, "--command-cwd"},
		{"a file as directory", "true", "/bin", "DIR/file", "bad-cwd", `bad working directory "DIR/file": it is not a directory`, "--command-cwd"},
		{"a NUL byte", "/bin/echo", "/bin", "", "bad-argument", `an argument or variable of the command holds a NUL byte`, ""},
		{"too long", "/bin/echo", "/bin", "", "too-long", `the command's arguments and environment are too long for the system`, "--command-input"},
		{"no name", "", "/bin", "", "bad-argument", "the command names no program", "--command"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fill := func(s string) string { return strings.ReplaceAll(s, "DIR", dir) }
			// A relative entry is looked up where the daemon stands.
			t.Chdir(cmpDir(fill(c.cwd), dir))
			d := newDesk(t, Options{Environ: []string{"PATH=" + fill(c.path)}, Home: dir})
			argv := []string{fill(c.argv0)}
			switch c.name {
			case "a NUL byte":
				argv = append(argv, "a\x00b")
			case "too long":
				argv = append(argv, strings.Repeat("x", 8<<20))
			}
			for range 50 {
				d.command(job.CommandPayload{Argv: argv, Cwd: fill(c.cwd), TimeoutMs: 1000})
				o := d.outcome()
				equal(t, "status", o.Status, worker.StatusError)
				equal(t, "kind", o.Kind, worker.KindSpawnError)
				equal(t, "reason", o.ErrorReason, "unknown")
				equal(t, "error", o.Error, fill(c.message))
				equal(t, "diagnostic source", o.Diagnostics[0].Source, "cron-setup")
				if hint := o.Diagnostics[0].Message; !strings.Contains(hint, fill(c.hint)) {
					t.Errorf("the diagnostic %q does not hint at %q", hint, c.hint)
				}
				if o.Process != nil || o.StartedAtMs != 0 || o.Output != nil {
					t.Errorf("it names a process: %+v", o)
				}
				if t.Failed() {
					return // once is enough
				}
			}
			if c.code == "too-long" || c.code == "not-a-program" || c.name == "a NUL byte" {
				return // only the start itself tells
			}
			_, err := Resolve(&job.CommandPayload{Argv: argv, Cwd: fill(c.cwd)}, []string{"PATH=" + fill(c.path)}, dir)
			var e *Error
			if !errors.As(err, &e) || e.Code != c.code {
				t.Errorf("Resolve: %v, want code %s", err, c.code)
			}
		})
	}
}

func cmpDir(cwd, otherwise string) string {
	if info, err := os.Stat(cwd); err == nil && info.IsDir() && filepath.IsAbs(cwd) {
		return cwd
	}
	return otherwise
}

func TestCase048TheJobsOwnPathAndHomeTakeEffect(t *testing.T) {
	dir := place(t)
	d := newDesk(t, Options{Environ: []string{"PATH=/usr/bin:/bin", "HOME=/"}, Home: "/"})
	for _, c := range []struct {
		what, script, want string
		env                []job.EnvVar
	}{
		{"PATH finds the program", "", "tool", []job.EnvVar{{Name: "PATH", Value: dir + "/bin"}}},
		{"PATH goes on to what may be executed", "locked", "later", []job.EnvVar{{Name: "PATH", Value: dir + "/bin:" + dir + "/later"}}},
		{"HOME is where it runs", "pwd; echo $HOME", dir + "\n" + dir, []job.EnvVar{{Name: "HOME", Value: dir}}},
		{"without one, the user's home", "pwd", "/", nil},
	} {
		argv := []string{"/bin/sh", "-c", c.script}
		switch c.script {
		case "":
			argv = []string{"tool"}
		case "locked":
			argv = []string{"locked"}
		}
		d.command(job.CommandPayload{Argv: argv, Env: c.env})
		o := d.outcome()
		equal(t, c.what+" (error)", o.Error, "")
		equal(t, c.what, o.Summary, c.want)
	}
}

func TestTheEnvironmentTellsTheRunAndKeepsSecrets(t *testing.T) {
	daemon := []string{"PATH=/bin", "KEPT=1", "ROTA_TOKEN=secret", "ROTA_URL=ws://x", "NOTIFY_SOCKET=/run/x",
		"ROTA_SLOT=of another run", "ROTA_RUN_ID=another", "OVER=daemon"}
	launch := &worker.Launch{RunID: "run-1", JobID: "job-1", JobName: "night = back\nup", Trigger: worker.TriggerCatchUp, Attempt: 2,
		SlotMs:  1_795_964_679_218,
		Payload: job.Payload{Command: &job.CommandPayload{Env: []job.EnvVar{{Name: "OVER", Value: "job"}, {Name: "ROTA_JOB_ID", Value: "forged"}}}}}
	env := commandEnv(daemon, launch, "/work")
	for name, want := range map[string]string{
		"PATH": "/bin", "KEPT": "1", "ROTA_TOKEN": "", "ROTA_URL": "", "NOTIFY_SOCKET": "", "OVER": "job", "PWD": "/work",
		"ROTA_RUN_ID": "run-1", "ROTA_JOB_ID": "job-1", "ROTA_JOB_NAME": "night = back\nup", "ROTA_TRIGGER": "catch-up",
		"ROTA_ATTEMPT": "2", "ROTA_SLOT": "2026-11-29T15:04:39.218Z",
	} {
		equal(t, name, lookupEnv(env, name), want)
	}
	launch.SlotMs = 0
	if slices.ContainsFunc(commandEnv(daemon, launch, "/"), func(s string) bool { return strings.HasPrefix(s, "ROTA_SLOT=") }) {
		t.Error("a manual run has a slot")
	}
}

func TestACommandLeadsASessionOfItsOwn(t *testing.T) {
	d := newDesk(t, Options{})
	d.shell("ps -o sid= -p $$ 2>/dev/null || ps -o sess= -p $$; echo $$")
	fields := strings.Fields(d.outcome().Summary)
	if len(fields) != 2 || (onlyLinux && fields[0] != fields[1]) {
		t.Errorf("session and pid: %v", fields)
	}
}
