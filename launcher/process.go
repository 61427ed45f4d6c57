package launcher

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// afterMs is how long output is still read once nothing of the run is known to
// live. Somebody out of reach may hold the other end.
const afterMs = 250

// process is a started command with its pipes.
type process struct {
	tree    *tree
	ours    []*os.File     // our ends of the pipes
	copying sync.WaitGroup // the goroutines that serve them
	drained chan struct{}  // closed when both outputs have ended
}

// startProcess starts a command and reads its output into out.
func startProcess(plan *prepared, input, runID string, out *Output) (*process, error) {
	var pipes, theirs []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close() // nothing was written that a failure could lose
		}
	}
	fail := func(err error) (*process, error) {
		closeAll(pipes)
		closeAll(theirs)
		return nil, startError(plan, err)
	}
	p := &process{drained: make(chan struct{})}
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		pipes, theirs = append(pipes, r), append(theirs, w)
	}
	cmd := &exec.Cmd{Path: plan.path, Args: plan.argv, Dir: plan.cwd, Env: plan.env, Stdout: theirs[0], Stderr: theirs[1]}
	if input != "" { // otherwise exec gives it the null device
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		pipes, theirs = append(pipes, w), append(theirs, r)
		cmd.Stdin = r
	}
	var err error
	if p.tree, err = startTree(cmd, runID); err != nil {
		return fail(err)
	}
	closeAll(theirs)
	p.ours = pipes

	var reading sync.WaitGroup
	reading.Go(func() { readAll(pipes[0], out, &out.stdout) })
	reading.Go(func() { readAll(pipes[1], out, &out.stderr) })
	p.copying.Go(func() {
		reading.Wait()
		close(p.drained)
	})
	if input != "" {
		p.copying.Go(func() {
			// A command need not read its input: a broken pipe is no failure.
			_, _ = io.WriteString(pipes[2], input)
			pipes[2].Close()
		})
	}
	return p, nil
}

// readAll reads a pipe to its end, or until it is closed on our side.
func readAll(r *os.File, out *Output, s *stream) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			out.write(s, buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// finish closes everything and takes the end of the first process from the
// system, if it has ended; nil if there is nothing to take.
func (p *process) finish(ended bool) *os.ProcessState {
	timer := time.NewTimer(afterMs * time.Millisecond)
	defer timer.Stop()
	select {
	case <-p.drained:
	case <-timer.C:
	}
	for _, f := range p.ours {
		f.Close() // wakes a reader or writer that is still waiting
	}
	p.copying.Wait()
	if !ended {
		return nil
	}
	return p.tree.reap()
}
