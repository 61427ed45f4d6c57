//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-scheduler/rota/host"
	"github.com/rota-scheduler/rota/worker"
)

// These tests run the real program and misuse its real socket: clients that
// subscribe and never read, that ask and never take the answer, more due work
// than there are places. They measure what that costs everybody else. Memory
// and processor time are read from /proc, so they run on Linux only; the code
// that they prove is the same everywhere.

// stallPatience bounds every wait of these tests; none is expected to last.
const stallPatience = 60 * time.Second

// stallProgram is one daemon, and the state directory that outlives it.
type stallProgram struct {
	t    *testing.T
	dir  string
	sock string
	*stallProcess
	mu     sync.Mutex // guards oneCli
	client *host.Client
}

type stallProcess struct {
	cmd   *exec.Cmd
	talk  strings.Builder // read after the end only
	ended chan struct{}
}

// newStall makes a state directory with a configuration and starts a daemon on it.
func newStall(t *testing.T, config string, args ...string) *stallProgram {
	t.Helper()
	dir, err := os.MkdirTemp("", "rota-stall-") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &stallProgram{t: t, dir: dir, sock: filepath.Join(dir, "rota.sock")}
	p.start(nil, args...)
	t.Cleanup(func() {
		p.hangUp()
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("the daemon said:\n%s", p.talk.String())
		}
	})
	return p
}

func (p *stallProgram) spawn(out *os.File, args ...string) *stallProcess {
	p.t.Helper()
	run := &stallProcess{ended: make(chan struct{})}
	run.cmd = exec.Command(crashPlain(p.t), append([]string{"serve", "--durability", "normal", "--state-dir", p.dir}, args...)...)
	run.cmd.Stderr, run.cmd.Stdout = &run.talk, nil
	if out != nil {
		run.cmd.Stdout = out
	}
	if err := run.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() { _ = run.cmd.Wait(); close(run.ended) }()
	return run
}

// start starts the program on the same files until one answers: while another
// holds them, it exits with 75 and is started again.
func (p *stallProgram) start(out *os.File, args ...string) (tries int) {
	p.t.Helper()
	p.hangUp()
	run := p.spawn(out, args...)
	p.await("an answer", func() bool {
		select {
		case <-run.ended:
			if code := run.cmd.ProcessState.ExitCode(); code != exitBusy {
				p.t.Fatalf("the daemon ended with %d:\n%s", code, run.talk.String())
			}
			tries++
			run = p.spawn(out, args...)
			return false
		default:
		}
		c, err := host.Dial(p.sock)
		if err != nil {
			return false
		}
		defer c.Close()
		var info struct{ ProcessInstanceID string }
		ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Second)
		defer cancel()
		if c.Call(ctx, "rota.info", nil, &info) != nil {
			return false
		}
		// The last process may still hold the socket: this one must be ours.
		return stallListener(c, run.cmd.Process.Pid, p.sock)
	})
	p.stallProcess = run
	var err error
	if p.client, err = host.Dial(p.sock); err != nil {
		p.t.Fatal(err)
	}
	return tries
}
