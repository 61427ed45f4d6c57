//go:build !linux && !darwin && !windows

package store

// fileSystem knows no network file systems on this system.
func fileSystem(string) (name string, trust fsTrust) { return "", fsLocal }
