//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/host"
)

// crashAck is one thing a daemon has promised: a run under an id, or a job;
// atMs is the slot of a one-shot.
type crashAck struct {
	JobID string `json:"jobId"`
	Key   string `json:"key,omitempty"`
	RunID string `json:"runId,omitempty"`
	AtMs  int64  `json:"atMs,omitempty"`
}

// crashJournal keeps promises outside the process that made them. A line is
// written before anything else is done with a reply.
type crashJournal struct {
	mu    sync.Mutex // guards all below
	file  *os.File
	acks  []crashAck
	asked int               // keys and names given out
	open  map[string]string // job id: the key that has no answer yet
}

func newCrashJournal(t *testing.T, path string) *crashJournal {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &crashJournal{file: file, open: map[string]string{}}
}

func (j *crashJournal) add(a crashAck) {
	line, err := json.Marshal(a)
	if err != nil {
		panic(err) // text and integers
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		panic(err) // a test that cannot keep its journal proves nothing
	}
	j.acks = append(j.acks, a)
	if j.open[a.JobID] == a.Key {
		delete(j.open, a.JobID)
	}
}

// key is the key to ask for a run of a job with: the one of a request that was
// never answered, as a client that repeats itself would, or else a new one.
func (j *crashJournal) key(jobID string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open[jobID] == "" {
		j.asked++
		j.open[jobID] = fmt.Sprintf("key-%d", j.asked)
	}
	return j.open[jobID]
}

func (j *crashJournal) name() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked++
	return fmt.Sprintf("once-%d", j.asked)
}

func (j *crashJournal) all() []crashAck {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]crashAck(nil), j.acks...)
}

// Manual jobs are made by the test, a few for each client; every fifth takes
// about a second, so that kills find it running.
const (
	crashClients       = 4
	crashJobsPerClient = 5

	crashQuick = `echo \"$ROTA_RUN_ID ${ROTA_SLOT:--} $$\" >> \"$CRASH_EFFECTS\"`
	crashSlow  = crashQuick + `; exec sleep 1`
)

// crashCommand is a payload that writes its effect and then runs the rest.
func crashCommand(script string) string {
	return `{"kind":"command","argv":["/bin/sh","-c","` + script + `"]}`
}

// crashManual is a job that only somebody's asking runs: its slot is years away.
// more are further members of it.
func crashManual(name, script string, more ...string) string {
	return `{"name":"` + name + `","schedule":{"kind":"cron","expr":"0 0 29 2 *","tz":"UTC"},"payload":` + crashCommand(script) + strings.Join(more, "") + `}`
}

// crashOnce is a one-shot.
func crashOnce(name string, atMs int64, script string) string {
	at := time.UnixMilli(atMs).UTC().Format("2006-01-02T15:04:05.000Z")
	return `{"name":"` + name + `","schedule":{"kind":"at","at":"` + at + `"},"payload":` + crashCommand(script) + `}`
}

// crashLoad is what the clients of one life do: each asks for runs of its own
// jobs, as fast as they are taken, and now and then adds a one-shot.
type crashLoad struct {
	life    *crashLife
	manual  []string // job ids
	replies chan struct{}
	killAt  int // kill in the moment of this reply; 0 = never
	wg      sync.WaitGroup

	mu       sync.Mutex // guards below
	answered int
	trouble  error // a refusal that nobody expects
}

// load starts the clients; they end with the daemon.
func (l *crashLife) load(manual []string, killAt int, rng *rand.Rand) *crashLoad {
	x := &crashLoad{life: l, manual: manual, killAt: killAt, replies: make(chan struct{})}
	for i := range crashClients {
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		x.wg.Go(func() { x.client(manual[i*crashJobsPerClient:(i+1)*crashJobsPerClient], own) })
	}
	return x
}

// client works through its jobs in turn until the connection ends.
func (x *crashLoad) client(jobs []string, rng *rand.Rand) {
	c := x.life.dial()
	if c == nil {
		return
	}
	defer c.Close()
	for i := 0; ; i++ {
		var ack crashAck
		var err error
		if rng.IntN(16) == 0 {
			ack, err = x.addOnce(c, rng)
		} else {
			ack, err = x.run(c, jobs[i%len(jobs)])
		}
		if err != nil {
			var refusal *host.WireError
			if errors.As(err, &refusal) && refusal.Code != host.CodeUnavailable {
				x.mu.Lock()
				x.trouble = err
				x.mu.Unlock()
			}
			return
		}
		if ack.JobID != "" {
			x.life.site.journal.add(ack)
			x.reply()
			continue
		}
		select { // the job's last run is still open: let it end
		case <-time.After(crashPollEvery):
		case <-x.life.gone:
			return
		}
	}
}

// reply counts an answer; at the chosen one the daemon dies.
func (x *crashLoad) reply() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered++
	if x.answered == x.killAt {
		_ = x.life.cmd.Process.Kill() // it may be dead already
	}
	if x.answered == 1 {
		close(x.replies)
	}
}

// run asks for a run. The zero answer means that one is open already.
func (x *crashLoad) run(c *host.Client, jobID string) (crashAck, error) {
	key := x.life.site.journal.key(jobID)
	answer, err := crashRun(c, jobID, key)
	if err != nil || answer.RunID == "" {
		return crashAck{}, err
	}
	return crashAck{JobID: jobID, Key: key, RunID: answer.RunID}, nil
}

// crashRunAnswer is what cron.run answers.
type crashRunAnswer struct {
	RunID  string `json:"runId"`
	Reason string `json:"reason"`
}

func crashRun(c *host.Client, jobID, key string) (crashRunAnswer, error) {
	var answer crashRunAnswer
	err := crashCall(c, "cron.run", map[string]string{"id": jobID, "mode": "force", "requestKey": key}, &answer)
	return answer, err
}

func (x *crashLoad) addOnce(c *host.Client, rng *rand.Rand) (crashAck, error) {
	atMs := time.Now().UnixMilli() + 50 + rng.Int64N(1000)
	script := crashQuick
	if rng.IntN(4) == 0 {
		script = crashSlow
	}
	var added struct {
		ID string `json:"id"`
	}
	err := crashCall(c, "cron.add", json.RawMessage(crashOnce(x.life.site.journal.name(), atMs, script)), &added)
	return crashAck{JobID: added.ID, AtMs: atMs}, err
}

// end waits for the clients and gives what surprised them.
func (x *crashLoad) end() error {
	x.wg.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.trouble
}
