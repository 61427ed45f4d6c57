package store

import (
	"path/filepath"
	"testing"
)

func TestIdleCheckpoint(t *testing.T) {
	fail := false
	o := options(filepath.Join(t.TempDir(), "rota.sqlite"))
	o.Fault = func(point string) error {
		if fail && point == "checkpoint" {
			return IO
		}
		return nil
	}
	s := mustOpen(t, o)
	if s.Idle().WALBytes() != 0 {
		t.Errorf("a start leaves %d bytes in the log", s.Idle().WALBytes())
	}
	write(t, s, "a")
	write(t, s, "b")
	full := s.Idle().WALBytes()
	if full == 0 {
		t.Fatal("two commits wrote no log: checkpoints run by themselves")
	}
	pending, err := s.Idle().Pending()
	if err != nil || pending < 2 {
		t.Errorf("%d frames are pending after two commits (%v)", pending, err)
	}
	fail = true
	if _, err := s.Idle().Checkpoint(); CodeOf(err) != CodeIO {
		t.Errorf("a failing disk says %v", err)
	}
	fail = false
	c, err := s.Idle().Checkpoint()
	if err != nil || c.Busy || c.WALFrames != pending || c.Moved != pending {
		t.Errorf("got %+v, %v, with %d frames pending", c, err, pending)
	}
	if n, err := s.Idle().Pending(); err != nil || n != 0 {
		t.Errorf("%d frames are pending after a checkpoint (%v)", n, err)
	}
	write(t, s, "c") // begins the log anew
	if got := s.Idle().WALBytes(); got != full {
		t.Errorf("the log has %d bytes, then %d: it is not used again", full, got)
	}
	if n, err := s.Idle().Pending(); err != nil || n == 0 || n >= pending {
		t.Errorf("%d frames are pending after one commit (%v)", n, err)
	}
	fail = true
	if err := s.Close(); CodeOf(err) != CodeIO {
		t.Errorf("Close on a failing disk says %v", err)
	}
	o.Fault = nil
	s = mustOpen(t, o)
	if s.CleanStart() || plan(t, s) != "a b c" {
		t.Errorf("clean %v, rows %q", s.CleanStart(), plan(t, s))
	}
	mustClose(t, s)
}
