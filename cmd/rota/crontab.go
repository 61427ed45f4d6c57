package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
)

// A crontab is checked as cron reads it: comments and blank lines, settings
// NAME=value, and lines of five fields or an @word followed by a command, with
// a user between them in the system's own tables.

var crontabSetting = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*|"[^"]*"|'[^']*')\s*=\s*(.*)$`)

func checkCrontab(c *checkAnswer, text string, system bool) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		at := i + 1
		line = strings.TrimSpace(strings.TrimSuffix(line, "\r"))
		switch {
		case line == "", line[0] == '#':
		case crontabSetting.MatchString(line):
			m := crontabSetting.FindStringSubmatch(line)
			checkCrontabSetting(c, at, strings.Trim(m[1], `"'`), strings.Trim(m[2], `"'`))
		default:
			c.Jobs++
			checkCrontabLine(c, at, line, system)
		}
	}
	if last := lines[len(lines)-1]; strings.TrimSpace(last) != "" {
		c.add(len(lines), "warning", "the last line has no newline, and some crons ignore such a line", "end the file with a newline")
	}
}

func checkCrontabSetting(c *checkAnswer, line int, name, value string) {
	switch name {
	case "CRON_TZ", "TZ":
		zone, err := schedule.LoadZone(value)
		if err != nil {
			c.addError(line, err)
			return
		}
		c.add(line, "note", fmt.Sprintf("%s sets the zone of the lines below; in rota each job names its own", name), "--tz "+zone.Name())
	case "MAILTO", "MAILFROM":
		c.add(line, "note", name+" sends output by mail; rota keeps it in the run history", "rota cron logs RUN")
	}
}

func checkCrontabLine(c *checkAnswer, line int, text string, system bool) {
	fields := strings.Fields(text)
	count := 5
	if strings.HasPrefix(text, "@") {
		count = 1
	}
	if fields[0] == "@reboot" {
		c.add(line, "error", "@reboot has no time: rota does not run jobs at boot", "let the service manager start it")
		return
	}
	need := count + 1
	if system {
		need++
	}
	if len(fields) < need {
		what := "a schedule and a command"
		if system {
			what = "a schedule, a user and a command"
		}
		c.add(line, "error", fmt.Sprintf("the line has %d words, and needs %s", len(fields), what), `*/5 * * * * command`)
		return
	}
	c.checkExpression(line, strings.Join(fields[:count], " "))
	command := strings.Join(fields[need-1:], " ")
	if percent := strings.Index(strings.ReplaceAll(command, `\%`, ""), "%"); percent >= 0 {
		c.add(line, "warning", "cron ends the command at the first % and gives the rest to standard input; rota runs the line as it is", "use --command-input for the rest")
	}
}
