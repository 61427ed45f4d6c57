package launcher

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// outputMiB sets how much each of the ten commands of case 050 prints. What is
// kept fills up after 128 KiB; 2048 shows the same for longer.
var outputMiB = flag.Int("output-mib", 64, "MiB that each command of case 050 prints")

// pid1Runs is how many commands case 116 runs; the case itself names 1000.
var pid1Runs = flag.Int("pid1-runs", 300, "commands that case 116 runs as PID 1")

func init() {
	roles["daemon"] = daemonRole
	roles["pid1"] = pid1Role
}

// bareLauncher runs a launcher without a test around it, so many runs at once.
func bareLauncher(logPath string, orders []worker.Order, atOnce int) (outcomes chan worker.Outcome, progress chan worker.Progress) {
	outcomes, progress = make(chan worker.Outcome, len(orders)), make(chan worker.Progress, len(orders))
	ready, places := make(chan struct{}, 1), make(chan struct{}, atOnce)
	next := make(chan worker.Order, len(orders))
	take := func() (now []worker.Order) {
		select {
		case o := <-next:
			return []worker.Order{o}
		default:
			return nil
		}
	}
	l, err := New(Options{LogPath: logPath, BootID: "boot-1", Environ: os.Environ(), Home: "/", Port: worker.Port{
		Ready: ready, Take: take, Live: func(*worker.Launch) string { return "" },
		Report: func(o worker.Outcome) {
			outcomes <- o
			<-places
		},
		Progress: func(p worker.Progress) { progress <- p },
		Done:     func() {},
	}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go func() {
		// The process of this role ends with its work; nobody stops the launcher.
		if err := l.Run(make(never)); err != nil {
			fmt.Println(err)
		}
	}()
	go func() {
		for _, o := range orders {
			places <- struct{}{}
			next <- o
			ready <- struct{}{}
		}
	}()
	return outcomes, progress
}

// never is a context that does not end.
type never chan struct{}

func (never) Deadline() (time.Time, bool) { return time.Time{}, false }
func (n never) Done() <-chan struct{}     { return n }
func (never) Err() error                  { return nil }
func (never) Value(any) any               { return nil }

func shellOrder(i int, script string) worker.Order {
	return worker.Order{Launch: &worker.Launch{ReceiptID: fmt.Sprintf("receipt-%d", i), RunID: fmt.Sprintf("daemon-%d-%d", os.Getpid(), i),
		Payload: job.Payload{Kind: "command", Command: &job.CommandPayload{Argv: []string{"/bin/sh", "-c", script}}}}}
}

// daemonRole starts DAEMON_RUNS commands, says so, and waits to be killed.
func daemonRole() {
	os.Unsetenv("LAUNCHER_TEST_ROLE")
	runs, err := strconv.Atoi(os.Getenv("DAEMON_RUNS"))
	if err != nil {
		os.Exit(1)
	}
	var orders []worker.Order
	for i := range runs {
		orders = append(orders, shellOrder(i, os.Getenv("DAEMON_SCRIPT")))
	}
	outcomes, progress := bareLauncher(os.Getenv("DAEMON_LOG"), orders, runs)
	for range runs {
		<-progress
	}
	fmt.Println("ready")
	<-outcomes // in a test that ends the command
	fmt.Println("reported")
	select {}
}

// daemon starts the test binary as a daemon; it is killed at the end at last.
func daemon(t *testing.T, logPath, script string, runs int, env ...string) (cmd *exec.Cmd, stdout *bufio.Reader) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "LAUNCHER_TEST_ROLE=daemon", "DAEMON_LOG="+logPath, "DAEMON_SCRIPT="+script,
		"DAEMON_RUNS="+strconv.Itoa(runs)), env...)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, bufio.NewReader(out)
}

// The daemon dies by kill -9 with its commands running: the launch log finds
// every one of them, and tells a stranger with the same pid from it.
func TestEveryProcessIsFoundAfterTheDaemonWasKilled(t *testing.T) {
	const runs = 25
	dir := t.TempDir()
	logPath, pidPath := filepath.Join(dir, "launch.log"), filepath.Join(dir, "pids")
	cmd, out := daemon(t, logPath, "echo $$ >>"+pidPath+"; exec sleep 600", runs)
	line, err := out.ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("the daemon said %q, %v", line, err)
	}
	await(t, "the commands", func() bool { return len(pidsIn(pidPath)) == runs })
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed; that is the point

	started := make(map[int]bool)
	for _, pid := range pidsIn(pidPath) {
		started[pid] = true
	}
	logged, err := ReadLog(logPath, "boot-1")
	must(t, err)
	equal(t, "runs in the log", len(logged), runs)
	for _, l := range logged {
		if l.Process == nil || !l.Alive || !started[l.Process.PID] {
			t.Fatalf("%+v, %+v", l, l.Process)
		}
		must(t, syscall.Kill(l.Process.PID, syscall.SIGKILL))
	}
	await(t, "all to be told dead", func() bool {
		logged, err := ReadLog(logPath, "boot-1")
		must(t, err)
		for _, l := range logged {
			if l.Alive {
				return false
			}
		}
		return true
	})
}

// rssBytes is the resident memory of this process.
func rssBytes(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	must(t, err)
	return pages * int64(os.Getpagesize())
}

func TestCase050EndlessOutputKeepsMemoryFlat(t *testing.T) {
	const runs = 10
	mib := *outputMiB
	if testing.Short() {
		mib = min(mib, 16)
	}
	d := newDesk(t, Options{})
	d.patience = 10 * time.Minute
	debug.FreeOSMemory()
	before, peak := rssBytes(t), int64(0)
	for i := range runs {
		d.command(job.CommandPayload{OutputMaxBytes: 128 << 10, Argv: []string{"sh", "-c",
			fmt.Sprintf("echo first-%d; head -c %d /dev/zero; echo; echo last-%d; exit %d", i, mib<<20, i, i%3)}})
	}
	for range runs {
		o := d.outcome()
		peak = max(peak, rssBytes(t))
		i := strings.TrimPrefix(o.Summary[:len("first-0")], "first-")
		n, err := strconv.Atoi(i)
		must(t, err)
		equal(t, "last line", o.Summary[strings.LastIndexByte(o.Summary, '\n')+1:], "last-"+i)
		total := int64(mib<<20) + int64(len("first-0\n\nlast-0\n"))
		equal(t, "bytes", o.Output.StdoutBytes, total)
		equal(t, "dropped", o.Output.DroppedBytes, total-128<<10)
		equal(t, "truncated", o.Diagnostics[0].Truncated, true)
		if len(o.Summary) > 128<<10+100 {
			t.Errorf("%d bytes are stored", len(o.Summary))
		}
		equal(t, "code", *o.Diagnostics[0].ExitCode, n%3)
	}
	grown := (peak - before) >> 20
	t.Logf("%d MiB printed, resident memory grew by %d MiB", runs*mib, grown)
	if grown > 50 && !raceDetector() {
		t.Errorf("resident memory grew by %d MiB", grown)
	}
}

// raceDetector reports whether this build keeps shadow memory, which is not
// the launcher's.
func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}

// pid1Result is what the launcher saw as PID 1.
type pid1Result struct {
	PID, OK, Code3, Other, Zombies int
	Sample                         string // of an outcome that was not expected
}

// pid1Role runs PID1_RUNS commands, half of which fail, each leaving an orphan
// that ends later, and counts.
func pid1Role() {
	os.Unsetenv("LAUNCHER_TEST_ROLE")
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Printf("cannot mount /proc: %v\n", err)
		os.Exit(1)
	}
	runs, err := strconv.Atoi(os.Getenv("PID1_RUNS"))
	if err != nil {
		os.Exit(1)
	}
	var orders []worker.Order
	for i := range runs {
		orders = append(orders, shellOrder(i, fmt.Sprintf("(sleep 1; exit 1) >/dev/null 2>&1 & exit %d", i%2*3)))
	}
	result := pid1Result{PID: os.Getpid()}
	outcomes, _ := bareLauncher("", orders, 16)
	for range runs {
		o := <-outcomes
		switch {
		case o.Status == worker.StatusOK:
			result.OK++
		case o.Error == "command exited with code 3":
			result.Code3++
		default:
			result.Other++
			result.Sample = fmt.Sprintf("%+v", o)
		}
	}
	tick := time.NewTicker(50 * time.Millisecond)
	for deadline := time.After(5 * time.Second); ; {
		left := 0
		result.Zombies = 0
		for _, pid := range processIDs() {
			if st, err := readStat(pid); err == nil && pid != 1 {
				if left++; st.dead() {
					result.Zombies++
				}
			}
		}
		select {
		case <-tick.C:
			if left > 0 {
				continue
			}
		case <-deadline:
		}
		break
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		os.Exit(1)
	}
}

func TestCase116AsPID1NoExitCodeIsLostAndNoZombieStays(t *testing.T) {
	runs := *pid1Runs
	if testing.Short() {
		runs = min(runs, 100)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LAUNCHER_TEST_ROLE=pid1", "PID1_RUNS="+strconv.Itoa(runs))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("this user may not make a process-id namespace here, and only there can a test be PID 1: %v %s", err, out)
	}
	var got pid1Result
	must(t, json.Unmarshal(out, &got))
	if want := (pid1Result{PID: 1, OK: runs / 2, Code3: runs / 2}); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestProcessStatusWithAnAwkwardName(t *testing.T) {
	got, err := parseStat([]byte("42 (a) Z 9 (b\n) S 7 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 99 1"))
	must(t, err)
	equal(t, "fields", got, procStat{state: 'S', parent: 7, group: 42, session: 41, startTime: 123456})
	for _, bad := range []string{"", "42 (a) S 1", "42 (a) S x 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
