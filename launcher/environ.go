package launcher

import (
	"strconv"
	"strings"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

// withheld are variables of the daemon that no command inherits: its own
// credentials and its line to the service manager, and what a rota above this
// one has said about its run.
var withheld = map[string]bool{
	"ROTA_TOKEN": true, "ROTA_URL": true, "NOTIFY_SOCKET": true,
	"ROTA_RUN_ID": true, "ROTA_JOB_ID": true, "ROTA_JOB_NAME": true,
	"ROTA_SLOT": true, "ROTA_TRIGGER": true, "ROTA_ATTEMPT": true,
}

// slotFormat is RFC 3339 in UTC with milliseconds.
const slotFormat = "2006-01-02T15:04:05.000Z"

// commandEnv builds a command's environment: the daemon's, then the job's,
// then what rota says about the run. A later entry wins over an earlier one.
func commandEnv(daemon []string, launch *worker.Launch, cwd string) []string {
	jobEnv := launch.Payload.Command.Env
	env := make([]string, 0, len(daemon)+len(jobEnv)+7)
	for _, entry := range daemon {
		if name, _, _ := strings.Cut(entry, "="); !withheld[envKey(name)] {
			env = append(env, entry)
		}
	}
	env = append(env, "PWD="+cwd)
	for _, v := range jobEnv {
		env = append(env, v.Name+"="+v.Value)
	}
	env = append(env,
		"ROTA_RUN_ID="+launch.RunID,
		"ROTA_JOB_ID="+launch.JobID,
		"ROTA_JOB_NAME="+launch.JobName,
		"ROTA_TRIGGER="+string(launch.Trigger),
		"ROTA_ATTEMPT="+strconv.Itoa(launch.Attempt))
	if launch.SlotMs != 0 { // manual and event runs have none
		env = append(env, "ROTA_SLOT="+time.UnixMilli(launch.SlotMs).UTC().Format(slotFormat))
	}
	return env
}

// lookupEnv finds the last entry of name, which is the one that counts.
func lookupEnv(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if key, value, _ := strings.Cut(env[i], "="); envKey(key) == envKey(name) {
			return value
		}
	}
	return ""
}
