package store

import "syscall"

// mntLocal is MNT_LOCAL of sys/mount.h.
const mntLocal = 0x1000

func fileSystem(dir string) (name string, trust fsTrust) {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil || st.Flags&mntLocal != 0 {
		return "", fsLocal
	}
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		name += string(rune(c))
	}
	return name, fsRefused
}
