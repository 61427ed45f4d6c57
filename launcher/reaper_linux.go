package launcher

import (
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// reapAfterMs is how long an orphan must have been a zombie before it is
// reaped. Whoever started it in this program has had time to wait for it.
const reapAfterMs = 1_000

// startReaper does the duty of PID 1, if that is what this program is: to reap
// processes whose own parent has gone. stop ends it.
//
// It must not take the end of a process that somebody here waits for. So it
// reaps only zombies that are no active run's process (decided while no process
// can be starting) and that were zombies a second earlier already.
func startReaper(l *Launcher) (stop func()) {
	if os.Getpid() != 1 {
		return func() {}
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	wg.Go(func() {
		defer signal.Stop(children)
		r := reaper{l: l, seen: make(map[procID]bool)}
		look := time.NewTimer(0) // there may be some already
		defer look.Stop()
		waiting := true // for look; a stream of ends must not put it off for ever
		for {
			select {
			case <-done:
				return
			case <-children:
				if waiting {
					continue
				}
			case <-look.C:
				if waiting = r.look(); !waiting {
					continue
				}
			}
			waiting = true
			look.Reset(reapAfterMs * time.Millisecond)
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// procID is a process beyond the reuse of its pid.
type procID struct {
	pid       int
	startTime int64
}

type reaper struct {
	l    *Launcher
	seen map[procID]bool // zombies of the look before
}

// look reaps what was a zombie at the look before too, and reports whether
// another look is needed.
func (r *reaper) look() (again bool) {
	r.l.forks.Lock()
	defer r.l.forks.Unlock()
	ours := r.l.children()
	zombies := make(map[procID]bool)
	for _, pid := range processIDs() {
		st, err := readStat(pid)
		if err != nil || st.state != 'Z' || st.parent != 1 || ours[pid] {
			continue
		}
		id := procID{pid, st.startTime}
		if r.seen[id] {
			_, err = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			if err == nil {
				continue
			}
		}
		zombies[id] = true
	}
	r.seen = zombies
	return len(zombies) > 0
}

// children lists the processes of active runs.
func (l *Launcher) children() map[int]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	pids := make(map[int]bool, len(l.active))
	for _, run := range l.active {
		if pid := run.pid.Load(); pid != 0 {
			pids[int(pid)] = true
		}
	}
	return pids
}
