package worker

// What is decoded of a job, beside its bytes: for the turn that works on it, while
// a run of it is open, and for the jobs that ran last.

// atHand is a job with what it says decoded, for a turn that asks more than once.
func (t *turn) atHand(j *Job) *Job {
	if j.atHand() {
		return j
	}
	next := *j
	next.decode()
	t.decoded = append(t.decoded, j.ID)
	t.st.jobs = t.st.jobs.Put(t.edit, j.ID, &next)
	return &next
}

// letGo drops what was decoded of jobs without an open run, but of those that ran
// last. Values made in this turn nobody else has yet; others are replaced.
func (t *turn) letGo(last *lastRan) {
	for _, id := range t.decoded {
		if _, open := t.st.open.Get(id); open {
			continue
		}
		j, ok := t.st.jobs.Get(id)
		if !ok || j.kept == nil {
			continue
		}
		cold := last.note(id)
		was, ok := t.st.jobs.Get(cold)
		if _, open := t.st.open.Get(cold); ok && !open && was.kept != nil {
			next := *was
			next.kept = nil
			t.st.jobs = t.st.jobs.Put(t.edit, cold, &next)
		}
	}
	t.decoded = nil
}

// lastRan are the jobs that ran last: what is decoded of them stays at hand, for
// those that run often. It is bounded, because decoded jobs are large.
type lastRan struct {
	known map[string]bool
	ring  []string // the oldest is overwritten
	next  int
}

const lastRanJobs = 1024

// note adds a job and gives the one that it takes the place of, "" for none.
func (l *lastRan) note(id string) (cold string) {
	if l.known[id] {
		return ""
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	l.known[id] = true
	if len(l.ring) < lastRanJobs {
		l.ring = append(l.ring, id)
		return ""
	}
	cold, l.ring[l.next] = l.ring[l.next], id
	l.next = (l.next + 1) % lastRanJobs
	delete(l.known, cold)
	return cold
}
