package launcher

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// tree is the first process of a command and everything it starts: a job
// object. Windows has no way out of one, so nothing of a run escapes.
type tree struct {
	cmd       *exec.Cmd
	pid       int
	startTime int64          // creation time, in 100 ns since 1601
	job       windows.Handle // closing it ends everything in it
	exited    chan struct{}  // closed when the first process has ended
}

// BootID identifies this boot of the machine by the time it began. A step of
// the clock changes it; what happened before the step then counts as another
// boot, which is the careful reading.
func BootID() string {
	var info struct { // SYSTEM_TIMEOFDAY_INFORMATION
		BootTime, CurrentTime, TimeZoneBias int64
		TimeZoneID, Reserved                uint32
		BootTimeBias, SleepTimeBias         uint64
	}
	err := windows.NtQuerySystemInformation(windows.SystemTimeOfDayInformation, unsafe.Pointer(&info), uint32(unsafe.Sizeof(info)), nil)
	if err != nil || info.BootTime == 0 {
		return "unknown-" + rand.Text()
	}
	return fmt.Sprintf("boot-%d", info.BootTime)
}

// startTree starts the command suspended, puts it into its job object, and
// only then lets it run: a fast child cannot be born outside.
func startTree(cmd *exec.Cmd, _ string) (*tree, error) {
	job, err := newJob()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		windows.CloseHandle(job)
		return nil, err
	}
	t := &tree{cmd: cmd, pid: cmd.Process.Pid, job: job, exited: make(chan struct{})}
	handle, err := t.admit()
	if err != nil {
		_ = cmd.Process.Kill() // it has not run yet
		_ = cmd.Wait()
		windows.CloseHandle(job)
		return nil, err
	}
	t.startTime, _ = startTimeOf(t.pid) // 0 matches no process
	go func() {
		_, _ = windows.WaitForSingleObject(handle, windows.INFINITE)
		windows.CloseHandle(handle)
		close(t.exited)
	}()
	return t, nil
}

// newJob makes a job object that ends its processes when it is closed.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

// admit puts the suspended process into the job and resumes it. The handle it
// gives can be waited on.
func (t *tree) admit() (windows.Handle, error) {
	const access = windows.SYNCHRONIZE | windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE | windows.PROCESS_QUERY_LIMITED_INFORMATION
	handle, err := windows.OpenProcess(access, false, uint32(t.pid))
	if err != nil {
		return 0, err
	}
	if err = windows.AssignProcessToJobObject(t.job, handle); err == nil {
		err = resume(uint32(t.pid))
	}
	if err != nil {
		windows.CloseHandle(handle)
		return 0, err
	}
	return handle, nil
}

// resume lets a process run that was started suspended: it has one thread.
func resume(pid uint32) error {
	threads, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(threads)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(threads, &entry); err == nil; err = windows.Thread32Next(threads, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return err
		}
		_, err = windows.ResumeThread(thread)
		windows.CloseHandle(thread)
		return err
	}
	return err
}

// terminate asks the command to end with CTRL_BREAK. Where no console carries
// that, nothing could ask, and it is ended at once.
func (t *tree) terminate(all bool) {
	if err := windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(t.pid)); err != nil {
		t.kill(all)
	}
}

// kill ends everything in the job. What cannot be ended is seen by alive.
func (t *tree) kill(bool) { _ = windows.TerminateJobObject(t.job, 1) }

// alive reports whether anything in the job is left.
func (t *tree) alive(bool) bool {
	var info struct { // JOBOBJECT_BASIC_ACCOUNTING_INFORMATION
		TotalUserTime, TotalKernelTime                   int64
		ThisPeriodTotalUserTime, ThisPeriodTotalKernel   int64
		TotalPageFaultCount, TotalProcesses              uint32
		ActiveProcesses, TotalTerminatedProcessesOverall uint32
	}
	err := windows.QueryInformationJobObject(t.job, windows.JobObjectBasicAccountingInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	return err == nil && info.ActiveProcesses > 0
}

// reap takes the end of the first process from the system, and lets go of the
// job. It must have ended.
func (t *tree) reap() *os.ProcessState {
	_ = t.cmd.Wait() // an exit code is no failure, and the state tells it
	windows.CloseHandle(t.job)
	return t.cmd.ProcessState
}

// startTimeOf gives the creation time of a process.
func startTimeOf(pid int) (int64, error) {
	handle, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return 0, err
	}
	defer windows.CloseHandle(handle)
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(handle, &created, &exited, &kernel, &user); err != nil {
		return 0, err
	}
	return int64(created.HighDateTime)<<32 | int64(created.LowDateTime), nil
}

// processAlive reports whether p is running now. An ended process that
// somebody holds a handle on still has a creation time, so its end is asked.
func processAlive(pid int, startTime int64) bool {
	if start, err := startTimeOf(pid); err != nil || start != startTime {
		return false
	}
	handle, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(handle)
	event, err := windows.WaitForSingleObject(handle, 0)
	return err == nil && event == uint32(windows.WAIT_TIMEOUT)
}
