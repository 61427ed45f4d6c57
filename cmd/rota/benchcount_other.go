//go:build !linux

package main

func writesSoFar() (bytes, calls int64) { return -1, -1 }
