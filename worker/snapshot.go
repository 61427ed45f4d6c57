package worker

import "iter"

// Snapshot is everything committed that reads need, frozen at one commit.
// Holding one costs memory only: it never blocks the worker.
type Snapshot struct {
	st *state
	// Version rises with every commit that changed anything.
	Version int64
	// Cron says whether schedules fire at all (cron.enabled).
	Cron bool
	// Config is the installed configuration.
	Config *Config
}

// Job finds one job.
func (s *Snapshot) Job(id string) (*Job, bool) { return s.st.jobs.Get(id) }

// Len counts all jobs, disabled ones and those set aside included.
func (s *Snapshot) Len() int { return s.st.jobs.Len() }

// Jobs walks all jobs in id order.
func (s *Snapshot) Jobs() iter.Seq[*Job] { return s.st.jobs.Values() }

// OpenRun finds a requested or active run by its public id.
func (s *Snapshot) OpenRun(runID string) (*Run, bool) { return s.st.openRun(runID) }

// Counts are the runs that wait and the runs that are active.
func (s *Snapshot) Counts() (requested, active int) { return s.st.queue.Len(), s.st.active.Len() }

// NextWakeMs is the earliest deadline; ok is false when nothing is scheduled
// or schedules do not fire.
func (s *Snapshot) NextWakeMs() (ms int64, ok bool) {
	key, _, ok := s.st.due.Min()
	return key.deadlineMs, ok && s.Cron
}

// Since walks the jobs that are not as they were in an older snapshot, in id order
// and as they were and are; nil = not there. It costs about as much as the changes
// between the two did.
func (s *Snapshot) Since(old *Snapshot) iter.Seq2[*Job, *Job] {
	return func(yield func(was, is *Job) bool) {
		for was, is := range s.st.jobs.since(old.st.jobs) {
			if was.value != is.value && !yield(was.value, is.value) {
				return
			}
		}
	}
}
