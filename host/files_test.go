package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/worker"
)

// sample is one file of a document of samples, and what is expected of it.
type sample struct{ name, text, want string }

func readSamples(t *testing.T, path string) []sample {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []sample
	for _, part := range strings.Split(string(raw), "\n== ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		text, want, ok := strings.Cut(rest, "\n-> ")
		if !ok {
			t.Fatalf("sample %q expects nothing", name)
		}
		all = append(all, sample{name, text, strings.TrimSpace(want)})
	}
	return all
}

// judge compares what was read, given as facts, or the error, with the sample.
func (s sample) judge(t *testing.T, err error, facts map[string]string) {
	t.Helper()
	line, message, _ := strings.Cut(s.want, ": ")
	if line, ok := strings.CutPrefix(strings.TrimSuffix(line, ":"), "line "); ok {
		var file *FileError
		if !errors.As(err, &file) {
			t.Fatalf("accepted, or refused without a place: %v", err)
		}
		if got := fmt.Sprint(file.Line); got != line || !strings.Contains(err.Error(), message) {
			t.Errorf("refused with %q, want line %s: %s", err, line, message)
		}
		return
	}
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	for _, fact := range strings.Fields(message) {
		key, want, _ := strings.Cut(fact, "=")
		if got, known := facts[key]; !known || got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

func TestConfigs(t *testing.T) {
	for _, s := range readSamples(t, "../testdata/host/configs.txt") {
		t.Run(s.name, func(t *testing.T) {
			c, err := ParseConfig("config.json", []byte(s.text), worker.DefaultConfig())
			s.judge(t, err, map[string]string{
				"enabled": fmt.Sprint(c.Worker.Enabled), "concurrent": fmt.Sprint(c.Worker.MaxConcurrent), "zone": c.Worker.Zone,
				"dst": c.Worker.DST.String(), "grace": fmt.Sprint(c.Worker.CleanupGraceMs), "locking": c.Locking, "durability": c.Durability,
				"retry": fmt.Sprint(c.Worker.RetryMax), "carried": strings.Join(c.Carried, ","),
				"on": strings.Join(c.Worker.RetryOn, ","), "rate": fmt.Sprint(c.RateLimit), "warnings": fmt.Sprint(len(c.Warnings)),
				"token": fmt.Sprint(len(string(c.Worker.WebhookToken))), "tokenhosts": strings.Join(c.Worker.WebhookTokenHosts, ","),
				"allowed": strings.Join(c.Worker.Net.AllowedHosts, ","), "blocked": strings.Join(c.Worker.Net.BlockedHosts, ","),
				"private": fmt.Sprint(c.Worker.Net.AllowPrivate),
			})
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the refusal repeats a secret: %v", err)
			}
		})
	}
}

func TestEveryConfigKeyCanBeSet(t *testing.T) {
	all := worker.DefaultConfig()
	text := `{"cron":{"skipMissedJobs":true,"catchUp":{"maxImmediate":1,"staggerMs":2,"agentDelayMs":3},"errorBackoffMs":[4],
		"retry":{"maxAttempts":5,"backoffMs":[6],"retryOn":["timeout"]},"autoDisable":{"failures":12,"scheduleErrors":13},
		"webhookToken":"t","webhookTokenHosts":["a.example"],"webhookSsrfPolicy":{"allowedHostnames":["b.example"],"blockedHostnames":["c.example"],
		"dangerouslyAllowPrivateNetwork":true,"allowRfc2544BenchmarkRange":true,"allowIpv6UniqueLocalRange":true},"rateLimit":14,"retention":{"receiptsPerJob":7,"historyDays":8,"historyRowsPerJob":9,"decisionDays":10,"events":11},"dst":"skip"}}`
	c, err := ParseConfig("c", []byte(text), all)
	if err != nil {
		t.Fatal(err)
	}
	all.SkipMissed, all.CatchUpMaxImmediate, all.CatchUpStaggerMs, all.AgentDelayMs = true, 1, 2, 3
	all.ErrorBackoffMs, all.RetryMax, all.RetryBackoffMs = []int64{4}, 5, []int64{6}
	all.ReceiptsPerJob, all.HistoryDays, all.HistoryRowsPerJob, all.DecisionDays, all.Events = 7, 8, 9, 10, 11
	all.DST, all.DSTChosen = schedule.Skip, true
	all.RetryOn, all.DisableFailures, all.DisableScheduleErrors = []string{"timeout"}, 12, 13
	all.WebhookToken, all.WebhookTokenHosts = "t", []string{"a.example"}
	all.Net = worker.NetPolicy{AllowedHosts: []string{"b.example"}, BlockedHosts: []string{"c.example"}, AllowPrivate: true, AllowBenchmark: true, AllowUniqueLocal: true}
	if got, want := fmt.Sprintf("%+v", c.Worker), fmt.Sprintf("%+v", all); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c.Worker.WebhookToken != all.WebhookToken || c.RateLimit != 14 || len(c.Carried) != 0 {
		t.Errorf("token of %d letters, rate limit %d, carried %v", len(string(c.Worker.WebhookToken)), c.RateLimit, c.Carried)
	}
}

// A token in a document is in nothing that is printed of it.
func TestCase089ConfigurationShowsNoToken(t *testing.T) {
	c, err := ParseConfig("c", []byte(`{"cron":{"webhookToken":"hunter2"}}`), worker.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if c.Worker.WebhookToken != "hunter2" || len(c.Warnings) != 1 {
		t.Errorf("the token was not taken, or nothing was said about where it goes: %v", c.Warnings)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v", c, c), string(raw)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("shown: %s", text)
		}
	}
}

func TestHostNames(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"Hooks.Example.NET.", "hooks.example.net"}, {" localhost ", "localhost"}, {"127.0.0.1", "127.0.0.1"},
		{"[::1]", "::1"}, {"0:0:0:0:0:0:0:1", "::1"}, {"::FFFF:10.0.0.1", "10.0.0.1"}, {"FD00::0001", "fd00::1"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"}, {"under_score.example", "under_score.example"},
		{"", ""}, {"  ", ""}, {".", ""}, {"a..b", ""}, {"*.example.net", ""}, {"https://example.net", ""}, {"example.net:8080", ""},
		{"example.net/path", ""}, {"user@example.net", ""}, {"[::1", ""}, {"[example.net]", ""}, {"fe80::1%eth0", ""}, {"a b", ""}, {"bücher.example", ""},
		{strings.Repeat("a", 254), ""},
	} {
		got, ok := hostName(c.in)
		if got != c.want && c.want != "" || ok != (c.want != "") {
			t.Errorf("hostName(%q) = %q, %v; want %q", c.in, got, ok, c.want)
		}
	}
}

func TestConfigFileThatIsNotThereIsTheDefault(t *testing.T) {
	c, err := ReadConfig(filepath.Join(t.TempDir(), "none.json"), worker.DefaultConfig())
	if err != nil || fmt.Sprint(c.Worker) != fmt.Sprint(worker.DefaultConfig()) || c.RateLimit != 30 {
		t.Errorf("%+v %v", c, err)
	}
}

func TestJobsFiles(t *testing.T) {
	for _, s := range readSamples(t, "../testdata/host/jobsfiles.txt") {
		t.Run(s.name, func(t *testing.T) {
			f, err := ParseJobsFile("jobs.json", []byte(s.text))
			lines := strings.Trim(strings.ReplaceAll(fmt.Sprint(f.Lines), " ", ","), "[]")
			s.judge(t, err, map[string]string{"jobs": fmt.Sprint(len(f.Jobs)), "lines": lines, "config": fmt.Sprint(f.ConfigLine), "echo": fmt.Sprint(f.NeedsEcho)})
		})
	}
}

// The lines of a configuration inside a jobs file are lines of the file.
func TestJobsFileConfigNamesItsLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.json")
	text := "{\n\"jobs\": [],\n\"config\":\n  {\"cron\": {\n    \"nonsense\": 1}}\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := ReadJobsFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file *FileError
	if _, err := f.ReadConfig(DefaultConfig()); !errors.As(err, &file) || file.Line != 5 || file.File != path {
		t.Errorf("refused with %v", err)
	}
	if _, err := ReadJobsFile(path + "-none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
