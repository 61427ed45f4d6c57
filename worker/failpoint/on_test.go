//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// TestMain lets the test binary be its own victim: it counts hits aloud.
func TestMain(m *testing.M) {
	if os.Getenv("FAILPOINT_VICTIM") != "" {
		for i := 1; i <= 4; i++ {
			Hit("other")
			Hit("here")
			fmt.Println(i)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestTheNthHitOfTheNameKills(t *testing.T) {
	for _, c := range []struct{ value, printed, end string }{
		{"here:1", "", "signal: killed"},
		{"here", "", "signal: killed"},
		{"here:3", "1\n2\n", "signal: killed"},
		{"here:9", "1\n2\n3\n4\n", "<nil>"},
		{"elsewhere:1", "1\n2\n3\n4\n", "<nil>"},
		{"here:x", "", "exit status 2"},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FAILPOINT_VICTIM=1", Variable+"="+c.value)
		out, err := cmd.Output()
		if string(out) != c.printed || fmt.Sprint(err) != c.end {
			t.Errorf("%s: printed %q, ended %v; want %q, %s", c.value, out, err, c.printed, c.end)
		}
	}
}
