//go:build unix

package launcher

import (
	"os"
	"os/exec"
	"syscall"
)

// tree is the first process of a command and everything that stems from it.
//
// The first process leads a session and group of its own. It is not reaped
// before the tree is done with: as long as it is a zombie, neither its pid nor
// the group's number can be given to somebody else, so a signal to the group
// never hits a stranger.
type tree struct {
	cmd       *exec.Cmd
	pid       int
	startTime int64
	runID     string
	exited    chan struct{} // closed when the first process has ended
}

func startTree(cmd *exec.Cmd, runID string) (*tree, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &tree{cmd: cmd, pid: cmd.Process.Pid, runID: runID, exited: make(chan struct{})}
	// It is our child and not reaped: the start time is there, or the process
	// table cannot be read at all; 0 then matches no process.
	t.startTime, _ = startTimeOf(t.pid)
	go func() {
		awaitExit(t.pid)
		close(t.exited)
	}()
	return t, nil
}

// terminate asks the session's processes to end; with all, also those that
// have left it.
func (t *tree) terminate(all bool) { t.signal(syscall.SIGTERM, all) }

// kill ends them.
func (t *tree) kill(all bool) { t.signal(syscall.SIGKILL, all) }

// signal reports no failure: who cannot be signalled is seen by alive.
func (t *tree) signal(sig syscall.Signal, all bool) {
	_ = syscall.Kill(-t.pid, sig)
	for _, m := range t.members(all) {
		if m.group != t.pid {
			m.signal(sig)
		}
	}
}

// alive reports whether anything but zombies is left.
func (t *tree) alive(all bool) bool { return len(t.members(all)) > 0 }

// reap takes the end of the first process from the system. It must have
// ended. A nil state means that somebody else has taken it.
func (t *tree) reap() *os.ProcessState {
	_ = t.cmd.Wait() // an exit code is no failure, and the state tells it
	return t.cmd.ProcessState
}

// member is a living process of a tree.
type member struct {
	pid, group int
	startTime  int64
}

// signal reaches the member and no later owner of its pid: the handle is taken
// first, then the identity is checked. (Where the system has no handles on
// processes, a pid reused between check and signal would be hit.)
func (m member) signal(sig syscall.Signal) {
	handle, err := os.FindProcess(m.pid)
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	if start, err := startTimeOf(m.pid); err == nil && start == m.startTime {
		_ = handle.Signal(sig) // it may have ended meanwhile
	}
}
