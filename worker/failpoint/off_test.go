//go:build !failpoint

package failpoint

import "testing"

// An ordinary build ignores the variable: a test environment that leaks into
// production must not be able to kill a daemon.
func TestOrdinaryBuildIgnoresTheVariable(t *testing.T) {
	t.Setenv("ROTA_FAILPOINT", "anything:1")
	Hit("anything")
	if n := testing.AllocsPerRun(10, func() { Hit("anything") }); n != 0 {
		t.Errorf("Hit allocates %v times; it must cost nothing", n)
	}
}
