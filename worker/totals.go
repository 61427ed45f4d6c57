package worker

import (
	"strings"

	"github.com/rota-scheduler/rota/store"
)

// historyTotals are how many history rows there are: staged beside the rows they
// count, so that a page knows its total without looking. They are in memory
// only. A table of them would cost every turn a page more, and could not be
// believed after another program had the file; to count an index of two million
// entries anew takes half a second in the background of a start.
type historyTotals struct {
	byJob tree[string, int]
	all   int
	known bool // the count of this start is over
}

func newHistoryTotals() historyTotals {
	return historyTotals{byJob: newTree[string, int](strings.Compare)}
}

func (h historyTotals) add(e *edit, jobID string, rows int) historyTotals {
	n, _ := h.byJob.Get(jobID)
	if h.all += rows; n+rows == 0 {
		h.byJob = h.byJob.Delete(e, jobID)
	} else {
		h.byJob = h.byJob.Put(e, jobID, n+rows)
	}
	return h
}

func (h historyTotals) addAll(e *edit, by store.HistoryTotals, sign int) historyTotals {
	for jobID, rows := range by {
		h = h.add(e, jobID, sign*rows)
	}
	return h
}

// of is the total of a job, of all jobs where the id is empty, and -1 while it
// is not known.
func (h historyTotals) of(jobID string) int {
	switch {
	case !h.known:
		return -1
	case jobID == "":
		return h.all
	}
	n, _ := h.byJob.Get(jobID)
	return n
}
