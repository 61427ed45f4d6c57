package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/host"
	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/worker/job"
)

// finding is one remark about a file. An error makes the check fail.
type finding struct {
	Line    int    `json:"line"`
	Level   string `json:"level"` // error, warning or note
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

type checkAnswer struct {
	OK       bool      `json:"ok"`
	File     string    `json:"file"`
	Kind     string    `json:"kind"` // jobs or crontab
	Jobs     int       `json:"jobs"`
	Findings []finding `json:"findings"`
}

func newCheckCommand(a *app) *cobra.Command {
	var asJSON, system bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a jobs file or a crontab; needs no daemon",
		Long: `Check a jobs file or a crontab without a daemon, for CI.

Each finding has its line. Exit code 0: no errors (there may be warnings);
1: at least one error.`,
		Args: argsBetween(1, 1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			answer, err := checkFile(args[0], system, time.Now().UnixMilli())
			if err != nil {
				return err
			}
			if asJSON {
				a.printJSON(answer)
			} else {
				a.printCheck(answer)
			}
			if !answer.OK {
				return told(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&system, "system", false, "a crontab whose lines name a user (assumed for /etc/crontab and cron.d)")
	return cmd
}

func checkFile(path string, system bool, nowMs int64) (checkAnswer, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return checkAnswer{}, &failure{Exit: exitIO, Code: "io", Message: err.Error(), Hint: "rota check FILE", Err: err}
	}
	zone, err := hostZone()
	if err != nil {
		return checkAnswer{}, err
	}
	answer := checkAnswer{File: path, Findings: []finding{}}
	start := bytes.TrimLeft(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")), " \t\r\n")
	if strings.EqualFold(filepath.Ext(path), ".json") || bytes.HasPrefix(start, []byte("[")) || bytes.HasPrefix(start, []byte("{")) {
		answer.Kind = "jobs"
		checkJobs(&answer, raw, job.Env{NowMs: nowMs, HostZone: zone.Name()})
	} else {
		answer.Kind = "crontab"
		system = system || path == "/etc/crontab" || strings.Contains(filepath.ToSlash(path), "/cron.d/")
		checkCrontab(&answer, string(raw), system)
	}
	answer.OK = true
	for _, f := range answer.Findings {
		answer.OK = answer.OK && f.Level != "error"
	}
	return answer, nil
}

func (c *checkAnswer) add(line int, level, message, hint string) {
	c.Findings = append(c.Findings, finding{Line: line, Level: level, Message: message, Hint: hint})
}

func (c *checkAnswer) addError(line int, err error) {
	f := failureOf(err)
	c.add(line, "error", f.Message, f.Hint)
}

// checkJobs creates every job of the file, for nobody.
func checkJobs(c *checkAnswer, raw []byte, env job.Env) {
	file, err := host.ParseJobsFile(c.File, raw)
	if err != nil {
		c.addFileError(err)
		return
	}
	config, err := file.ReadConfig(host.DefaultConfig())
	if err != nil {
		c.addFileError(err)
		config = host.DefaultConfig()
	}
	for _, warning := range config.Warnings {
		c.add(file.ConfigLine, "warning", warning, "")
	}
	env = configured(env, config)
	c.Jobs = len(file.Jobs)
	keys := map[string]int{} // declaration key → line
	for i, params := range file.Jobs {
		line := file.Lines[i]
		created, err := job.Create(fmt.Sprintf("check-%d", i), params, env)
		switch {
		case job.InThePast(err):
			c.add(line, "warning", failureOf(err).Message, "a one-shot of the past is left out when the file is applied")
			continue
		case err != nil:
			c.addError(line, err)
			continue
		}
		for _, note := range created.Notes {
			c.add(line, "note", note, "")
		}
		c.checkAddresses(line, created.Definition, config.Worker.Net, file.Config != nil)
		key := declaredAs(created.Definition)
		if first, taken := keys[key]; taken {
			c.add(line, "error", fmt.Sprintf("the job on line %d is declared as %s too", first, key), "give one of them another name, or a declarationKey")
			continue
		}
		keys[key] = line
	}
}

// configured is what a configuration says of new jobs.
func configured(env job.Env, config host.Config) job.Env {
	w := config.Worker
	env.DST = w.DST
	if config.Zone != "" {
		env.HostZone = config.Zone
	}
	env.ErrorBackoffMs, env.DisableFailures = w.ErrorBackoffMs, w.DisableFailures
	env.RetryOn, env.RetryMax, env.RetryBackoffMs = w.RetryOn, w.RetryMax, w.RetryBackoffMs
	return env
}

// declaredAs is the key by which a jobs file's job is found again.
func declaredAs(definition []byte) string {
	var d struct{ Name, DeclarationKey string }
	if json.Unmarshal(definition, &d) == nil && d.DeclarationKey != "" {
		return d.DeclarationKey
	}
	return "file:" + d.Name
}

func (c *checkAnswer) addFileError(err error) {
	var file *host.FileError
	if errors.As(err, &file) {
		c.add(file.Line, "error", file.Message, file.Hint)
		return
	}
	c.addError(0, err)
}

func (a *app) printCheck(c checkAnswer) {
	for _, f := range c.Findings {
		place := c.File
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", c.File, f.Line)
		}
		text := fmt.Sprintf("%s: %s: %s", place, f.Level, f.Message)
		if f.Hint != "" {
			text += " (" + f.Hint + ")"
		}
		a.printText(escapeText(text) + "\n")
	}
	if c.OK {
		a.talkf("%s: %s, %d jobs, no errors\n", escapeText(c.File), c.Kind, c.Jobs)
	}
}

// checkExpression remarks on one cron expression.
func (c *checkAnswer) checkExpression(line int, text string) {
	expr, err := schedule.ParseExpression(text)
	if err != nil {
		c.addError(line, err)
		return
	}
	for _, w := range expr.Warnings() {
		c.add(line, "warning", w, "")
	}
}
