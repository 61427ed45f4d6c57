//go:build failpoint

package main

import "os"

// twoSteps keeps request and activation in two commits, so that a crash can be
// put between them.
func twoSteps() bool { return os.Getenv("ROTA_TWO_STEPS") == "1" }
