package worker

import "github.com/rota-scheduler/rota/store"

// historyTotals are how many history rows there are, so that a page knows its
// total without looking. They are in memory only. A table of them would cost
// every turn a page more, and could not be believed after another program had the
// file; to count an index of two million entries anew takes half a second in the
// background of a start.
//
// They belong to the loop, which changes them after a commit; a turn keeps what it
// adds and removes in a list of its own.
type historyTotals struct {
	byJob map[string]int
	all   int
	known bool // the count of this start is over
}

func newHistoryTotals() historyTotals { return historyTotals{byJob: map[string]int{}} }

func (h *historyTotals) add(jobID string, rows int) {
	h.all += rows
	if n := h.byJob[jobID] + rows; n != 0 {
		h.byJob[jobID] = n
		return
	}
	delete(h.byJob, jobID)
}

// of is the total of a job, of all jobs where the id is empty, and -1 while it
// is not known.
func (h *historyTotals) of(jobID string) int {
	switch {
	case !h.known:
		return -1
	case jobID == "":
		return h.all
	}
	return h.byJob[jobID]
}

// rowCount is what a turn adds to the history of a job, or takes away.
type rowCount struct {
	jobID string
	rows  int
}

func (t *turn) countRows(jobID string, rows int) { t.counts = append(t.counts, rowCount{jobID, rows}) }

func (t *turn) countRemoved(by store.HistoryTotals) {
	for jobID, rows := range by {
		t.countRows(jobID, -rows)
	}
}

// rowsOf is the total of a job as this turn will leave it.
func (t *turn) rowsOf(jobID string) int {
	n := t.st.totals.of(jobID)
	for _, c := range t.counts {
		if c.jobID == jobID {
			n += c.rows
		}
	}
	return n
}
