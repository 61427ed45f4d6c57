package host

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rota-scheduler/rota/worker/job"
)

// maxFileJobs bounds a jobs file.
const maxFileJobs = 10_000

// JobsFile is a file of jobs in the shape of cron.add's parameters. What the
// jobs say is checked by who applies them.
type JobsFile struct {
	File   string
	Config json.RawMessage // nil when the file has none
	// ConfigLine is the line on which Config starts.
	ConfigLine int
	Jobs       []json.RawMessage
	Lines      []int // Jobs[i] starts on Lines[i]
	// NeedsEcho: an http payload goes to the echo listener, which exists only in
	// a daemon that was started with such a file.
	NeedsEcho bool
}

// ReadJobsFile reads an array of jobs, or an object {"config":…, "jobs":[…]}.
// A refusal is a *FileError.
func ReadJobsFile(path string) (JobsFile, error) {
	raw, err := readBounded(path)
	if err != nil {
		return JobsFile{}, err
	}
	return ParseJobsFile(path, raw)
}

// ParseJobsFile is ReadJobsFile on bytes; file is for messages.
func ParseJobsFile(file string, raw []byte) (JobsFile, error) {
	const shape = `[{"name":…,"schedule":…,"payload":…}, …] or {"config":…,"jobs":[…]}`
	d := newDocument(file, raw)
	line := d.valueLine()
	tok, err := d.dec.Token()
	if err != nil {
		return JobsFile{}, d.syntax(err)
	}
	jobs := JobsFile{File: file}
	switch tok {
	case json.Delim('['):
		err = d.jobs(&jobs)
	case json.Delim('{'):
		found := false
		err = d.members(func(key string, line int) error {
			switch key {
			case "config":
				jobs.ConfigLine = d.valueLine()
				jobs.Config, err = d.value()
				return err
			case "jobs":
				found = true
				if err := d.open('[', `"jobs" must be an array`); err != nil {
					return err
				}
				return d.jobs(&jobs)
			}
			return d.fault(line, fmt.Sprintf("has an unknown key %q", key), "a jobs file is "+shape)
		})
		if err == nil && !found {
			err = d.fault(line, `has no "jobs"`, "a jobs file is "+shape)
		}
	default:
		err = d.fault(line, "holds no jobs", "a jobs file is "+shape)
	}
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return JobsFile{}, err
	}
	return jobs, nil
}

// ReadConfig reads the file's configuration over base; a file without one
// gives base.
func (f JobsFile) ReadConfig(base Config) (Config, error) {
	if f.Config == nil {
		return base, nil
	}
	c, err := base.over(f.File, f.Config)
	var fault *FileError
	if errors.As(err, &fault) && fault.Line > 0 {
		fault.Line += f.ConfigLine - 1 // its lines were counted from its start
	}
	return c, err
}

// jobs reads the elements of an opened array, and its end.
func (d *document) jobs(into *JobsFile) error {
	for d.dec.More() {
		line := d.valueLine()
		raw, err := d.value()
		if err != nil {
			return err
		}
		if raw[0] != '{' {
			return d.fault(line, fmt.Sprintf("job %d is not an object", len(into.Jobs)+1), `write {"name":…,"schedule":…,"payload":…}`)
		}
		if len(into.Jobs) == maxFileJobs {
			return d.fault(line, fmt.Sprintf("has more than %d jobs", maxFileJobs), "split it")
		}
		into.Jobs = append(into.Jobs, raw)
		into.Lines = append(into.Lines, line)
		into.NeedsEcho = into.NeedsEcho || job.NamesEcho(raw)
	}
	if _, err := d.dec.Token(); err != nil {
		return d.syntax(err)
	}
	return nil
}
