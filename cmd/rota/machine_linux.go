package main

import (
	"os"
	"strings"
)

// machineID is the operating system's own id of this machine, "" when it has
// none: never the host's name, which moves with a copied disk image.
func machineID() string {
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if raw, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(raw))
		}
	}
	return ""
}
