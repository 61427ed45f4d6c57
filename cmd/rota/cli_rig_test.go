//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/host"
)

// cliPatience bounds every wait of these tests; none is expected to last.
const cliPatience = 60 * time.Second

// cliBinary builds the program once. It lies beside the test binary, which
// `go test` removes with everything around it.
var cliBinary = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(self), "cli-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "rota")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// cli runs the program on a state directory of its own.
type cli struct {
	t   *testing.T
	bin string
	dir string // state directory
	env []string
	// daemon is the one that was started last.
	daemon *os.Process
	// kill ends it as nothing can be caught, and waits.
	kill func()
}

func newCLI(t *testing.T) *cli {
	t.Helper()
	bin, err := cliBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "rota-cli-") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "ROTA_STATE_DIR="+dir, "NO_COLOR=1", "TZ=UTC")
	return &cli{t: t, bin: bin, dir: dir, env: env}
}

func (c *cli) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.bin, args...)
	cmd.Env = c.env
	return cmd
}

type printed struct {
	out, err string
	exit     int
}

func (c *cli) run(args ...string) printed {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), cliPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.bin, args...)
	cmd.Env = c.env
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		c.t.Fatalf("rota %s: %v %v", strings.Join(args, " "), err, ctx.Err())
	}
	return printed{out.String(), talk.String(), cmd.ProcessState.ExitCode()}
}

// serve starts a daemon on the socket alone, unless args say otherwise, and
// waits until it answers. The end of the test stops it, or stop does before.
func (c *cli) serve(args ...string) (stop func()) {
	c.t.Helper()
	cmd := c.command(append([]string{"serve", "--listen", ""}, args...)...)
	var talk bytes.Buffer
	cmd.Stderr = &talk
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.daemon = cmd.Process
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	killed := false
	c.kill = func() {
		killed = true
		_ = cmd.Process.Kill()
		ended <- <-ended
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil && !killed {
				c.t.Errorf("serve: %v\n%s", err, talk.String())
			}
		case <-time.After(cliPatience):
			_ = cmd.Process.Kill()
			c.t.Errorf("serve did not stop")
		}
	})
	c.t.Cleanup(stop)
	timeout := time.After(cliPatience)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		client, err := host.Dial(filepath.Join(c.dir, "rota.sock"))
		if err == nil {
			err = client.Call(c.t.Context(), "cron.status", nil, nil)
			client.Close()
		}
		if err == nil {
			return stop
		}
		select {
		case <-look.C:
		case err := <-ended:
			ended <- err
			c.t.Fatalf("serve ended: %v\n%s", err, talk.String())
		case <-timeout:
			c.t.Fatalf("no answer from the daemon: %v\n%s", err, talk.String())
		}
	}
}
