package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// writesSoFar reads the kernel's account of this process.
func writesSoFar() (bytes, calls int64) {
	f, err := os.Open("/proc/self/io")
	if err != nil {
		return -1, -1
	}
	defer f.Close()
	bytes, calls = -1, -1
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case key == "wchar":
			bytes = n
		case key == "syscw":
			calls = n
		}
	}
	return bytes, calls
}
