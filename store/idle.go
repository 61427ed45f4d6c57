package store

import "os"

// Idle is what may be done between two transactions, one bounded piece at a
// time. Like a Tx it is of use in the turn that asked for it only.
type Idle struct{ s *Store }

// Idle is for the end of a turn, after its transaction.
func (s *Store) Idle() *Idle { return &Idle{s} }

// Checkpoint says what one checkpoint found and did.
type Checkpoint struct {
	WALFrames int // frames in the log
	Moved     int // of these, how many are in the main file now
	Busy      bool
}

// Checkpoint moves what it can from the log to the main file. It waits for
// nothing.
func (i *Idle) Checkpoint() (Checkpoint, error) {
	if err := i.usable("checkpoint"); err != nil {
		return Checkpoint{}, err
	}
	if i.s.fenced != "" {
		return Checkpoint{}, nil // it is left as it is
	}
	if err := i.s.fault("checkpoint"); err != nil {
		return Checkpoint{}, wrap("checkpoint", i.s.path, err)
	}
	c, err := i.s.session.checkpoint("PASSIVE")
	if Class(err) == IO {
		i.s.broken = true // what the log holds and what the disk holds may differ
	}
	return c, wrap("checkpoint", i.s.path, err)
}

// Pending is the number of frames that only the log holds: what to checkpoint
// by. It moves nothing.
func (i *Idle) Pending() (int, error) {
	if err := i.usable("checkpoint"); err != nil {
		return 0, err
	}
	c, err := i.s.session.checkpoint("NOOP")
	return c.WALFrames - c.Moved, wrap("checkpoint", i.s.path, err)
}

// WALBytes is the size of the log file, 0 if there is none. It is a high-water
// mark, for people: a log that was moved keeps its size and is overwritten.
func (i *Idle) WALBytes() int64 {
	info, err := os.Stat(i.s.path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

func (i *Idle) usable(op string) error {
	switch {
	case i.s.session == nil || i.s.broken:
		return newError(CodeNeedsReopen, op, i.s.path, nil)
	case i.s.tx != nil:
		return misuse(op, i.s.path, "a transaction is open")
	}
	return nil
}
