package launcher

import (
	"crypto/rand"
	"errors"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB of sys/proc.h

// BootID identifies this boot of the machine. Where the system does not tell
// it, each call gives another one: what happened before then counts as
// another boot, which is the careful reading.
func BootID() string {
	if id, err := unix.Sysctl("kern.bootsessionuuid"); err == nil && id != "" {
		return id
	}
	return "unknown-" + rand.Text()
}

// awaitExit returns when the child has ended, and leaves it unreaped. waitid
// would also return for a stopped child here, so the end is asked of a kernel
// queue.
func awaitExit(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		awaitZombie(pid)
		return
	}
	defer unix.Close(queue)
	watch := []unix.Kevent_t{{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT}}
	got := make([]unix.Kevent_t, 1)
	for {
		_, err := unix.Kevent(queue, watch, got, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil && !errors.Is(err, unix.ESRCH): // ESRCH: it has ended already
			awaitZombie(pid)
		}
		return
	}
}

// awaitZombie is for the rare case that no kernel queue is to be had. It looks
// twenty times a second.
func awaitZombie(pid int) {
	for {
		info, err := look(pid)
		if err != nil || info.Proc.P_stat == zombie {
			return
		}
		pause := unix.Timeval{Usec: 50_000}
		_, _ = unix.Select(0, nil, nil, nil, &pause) // an early return only looks sooner
	}
}

// look gives the kernel's entry of a process.
func look(pid int) (*unix.KinfoProc, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err == nil && int(info.Proc.P_pid) != pid {
		err = unix.ESRCH
	}
	return info, err
}

func startTimeIn(info *unix.KinfoProc) int64 {
	return info.Proc.P_starttime.Sec*1e6 + int64(info.Proc.P_starttime.Usec)
}

// startTimeOf gives the kernel's start time of a process, in microseconds.
func startTimeOf(pid int) (int64, error) {
	info, err := look(pid)
	if err != nil {
		return 0, err
	}
	return startTimeIn(info), nil
}

// processAlive reports whether that very process is running now. A zombie is
// not: it only waits to be reaped.
func processAlive(pid int, startTime int64) bool {
	info, err := look(pid)
	return err == nil && startTimeIn(info) == startTime && info.Proc.P_stat != zombie
}

// members lists what lives of the tree's process group. What has left the
// group cannot be told from strangers here.
func (t *tree) members(bool) []member {
	infos, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", t.pid)
	if err != nil {
		return nil
	}
	var found []member
	for i := range infos {
		if info := &infos[i]; info.Proc.P_stat != zombie {
			found = append(found, member{pid: int(info.Proc.P_pid), group: int(info.Eproc.Pgid), startTime: startTimeIn(info)})
		}
	}
	return found
}
