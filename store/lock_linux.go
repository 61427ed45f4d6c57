package store

import "syscall"

// networkFileSystems are the file systems where a lock or an fsync may not hold
// across machines, by the magic number of statfs. A user-space one may be local
// or not, so it is only named.
var networkFileSystems = map[uint32]struct {
	name  string
	trust fsTrust
}{
	0x6969:     {"nfs", fsRefused},
	0xFE534D42: {"smb2", fsRefused},
	0xFF534D42: {"cifs", fsRefused},
	0x517B:     {"smb", fsRefused},
	0x564C:     {"ncp", fsRefused},
	0x5346414F: {"afs", fsRefused},
	0x73757245: {"coda", fsRefused},
	0x00C36400: {"ceph", fsRefused},
	0x65735546: {"fuse", fsDoubtful},
	0x01021997: {"9p", fsDoubtful},
}

func fileSystem(dir string) (name string, trust fsTrust) {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return "", fsLocal // what is wrong with the directory shows at the lock
	}
	known := networkFileSystems[uint32(st.Type)]
	return known.name, known.trust
}
