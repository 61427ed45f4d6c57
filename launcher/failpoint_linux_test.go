//go:build failpoint

package launcher

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// The daemon dies at each point in the life of a run. What the launch log then
// says must be what had happened.
func TestWhatTheLaunchLogSaysAfterADeathAtEachPoint(t *testing.T) {
	for _, c := range []struct {
		point, script        string
		effect, noted, alive bool
	}{
		{"launch-logged", "touch $EFFECT", false, false, false},
		{"process-started", "touch $EFFECT", true, false, false},
		{"mid-run", "touch $EFFECT; exec sleep 600", true, true, true},
		{"process-ended", "touch $EFFECT", true, true, false},
	} {
		t.Run(c.point, func(t *testing.T) {
			dir := t.TempDir()
			logPath, effect := filepath.Join(dir, "launch.log"), filepath.Join(dir, "effect")
			cmd, out := daemon(t, logPath, c.script, 1, "ROTA_FAILPOINT="+c.point+":1", "EFFECT="+effect)
			_, _ = io.Copy(io.Discard, out)
			if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
				t.Fatalf("the daemon ended with %v", err)
			}
			exists := func() bool {
				_, err := os.Stat(effect)
				return err == nil
			}
			if c.effect {
				await(t, "the effect", exists)
			} else if exists() {
				t.Error("the command ran")
			}
			logged, err := ReadLog(logPath, "boot-1")
			must(t, err)
			if len(logged) != 1 {
				t.Fatalf("%d runs in the log", len(logged))
			}
			equal(t, "process noted", logged[0].Process != nil, c.noted)
			equal(t, "alive", logged[0].Alive, c.alive)
			if p := logged[0].Process; p != nil && logged[0].Alive {
				victim, err := os.FindProcess(p.PID)
				must(t, err)
				must(t, victim.Kill())
			}
		})
	}
}
