package launcher

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// BootID identifies this boot of the machine. Where the system does not tell
// it, each call gives another one: what happened before then counts as
// another boot, which is the careful reading.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if id := strings.TrimSpace(string(b)); err == nil && id != "" {
		return id
	}
	return "unknown-" + rand.Text()
}

// awaitExit returns when the child has ended, and leaves it unreaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return // ended; or no child of ours, which reaping will tell
		}
	}
}

// procStat is the part of /proc/PID/stat that is used here.
type procStat struct {
	state                  byte
	parent, group, session int
	startTime              int64 // clock ticks since boot
}

var errBadStat = errors.New("unreadable process status")

func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, err
	}
	return parseStat(b)
}

// parseStat reads the fields after the program's name, which may itself hold
// spaces and parentheses.
func parseStat(b []byte) (procStat, error) {
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return procStat{}, errBadStat
	}
	var numbers [4]int64
	for i, at := range [...]int{1, 2, 3, 19} { // fields 4, 5, 6 and 22 of proc(5)
		n, err := strconv.ParseInt(string(fields[at]), 10, 64)
		if err != nil {
			return procStat{}, errBadStat
		}
		numbers[i] = n
	}
	return procStat{state: fields[0][0], parent: int(numbers[0]), group: int(numbers[1]),
		session: int(numbers[2]), startTime: numbers[3]}, nil
}

// startTimeOf gives the kernel's start time of a process, in clock ticks.
func startTimeOf(pid int) (int64, error) {
	st, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	return st.startTime, nil
}

// processAlive reports whether that very process is running now. A zombie is
// not: it only waits to be reaped.
func processAlive(pid int, startTime int64) bool {
	st, err := readStat(pid)
	return err == nil && st.startTime == startTime && !st.dead()
}

// dead reports whether the process has ended and waits to be reaped.
func (st procStat) dead() bool { return st.state == 'Z' || st.state == 'X' }

// processIDs lists the process table; empty if it cannot be read.
func processIDs() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // a part is better than nothing
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// members lists what lives of the tree: the session, and with all, every
// process that carries the run's id in its environment. It reads the whole
// process table, some milliseconds; it is called only while a command is being
// ended.
func (t *tree) members(all bool) []member {
	var found []member
	mark := []byte("ROTA_RUN_ID=" + t.runID)
	for _, pid := range processIDs() {
		st, err := readStat(pid)
		if err != nil || st.dead() || st.startTime < t.startTime {
			continue
		}
		if st.group == t.pid || st.session == t.pid || (all && t.runID != "" && carries(pid, mark)) {
			found = append(found, member{pid: pid, group: st.group, startTime: st.startTime})
		}
	}
	return found
}

// carries reports whether a process has the entry in its environment. That of
// other users cannot be read and does not count.
func carries(pid int, entry []byte) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for one := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(one, entry) {
			return true
		}
	}
	return false
}
