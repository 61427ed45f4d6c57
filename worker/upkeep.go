package worker

// Upkeep between transactions: frames of the log that the file lacks are moved
// into it. Whoever asks meanwhile waits for it, about 20 µs a page, so it is done a
// little at a time, when nothing was committed for a moment: a caller that asks
// again at once leaves none, and slots that come a few milliseconds apart do. In
// the middle of work it is done only when the log would outgrow its bound.
const (
	quietMs     = 3
	quietFrames = 300   // fewer are left where they are
	busyFrames  = 16384 // 64 MiB
	lookCommits = 16    // between two looks at how many there are
)

// upkeep does what is due of it.
func (w *Worker) upkeep() {
	var err error
	if w.unseen >= lookCommits {
		w.unseen = 0
		w.pending, err = w.store.Idle().Pending()
	}
	quiet := w.pending >= quietFrames && w.clock.MonoMs() >= w.quietMonoMs()
	if err == nil && (quiet || w.pending >= busyFrames) {
		w.pending = 0 // or what the next look finds
		_, err = w.store.Idle().Checkpoint()
	}
	if err != nil {
		w.log.Warn("a checkpoint failed; the log grows until one succeeds", "err", err)
	}
}

// quietMonoMs is when the loop will have been quiet for long enough.
func (w *Worker) quietMonoMs() int64 { return w.committedMonoMs + quietMs }
