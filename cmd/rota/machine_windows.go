package main

import "golang.org/x/sys/windows/registry"

// machineID is the id that Windows made when it was installed, "" when it
// cannot be read.
func machineID() string {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Cryptography`, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return ""
	}
	defer key.Close()
	id, _, err := key.GetStringValue("MachineGuid")
	if err != nil {
		return ""
	}
	return id
}
