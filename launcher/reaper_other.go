//go:build !linux

package launcher

// startReaper does nothing: only a container on Linux makes a program PID 1.
func startReaper(*Launcher) (stop func()) { return func() {} }
