//go:build !failpoint

package main

// twoSteps keeps request and activation in two commits; only the build that
// crash tests use can ask for it.
func twoSteps() bool { return false }
