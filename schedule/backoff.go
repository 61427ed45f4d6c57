package schedule

// Backoff returns the delay after the n-th failure in a row, counted from 1. The
// last entry repeats; no failure or no table is no delay.
func Backoff(tableMs []int64, n int) int64 {
	if n < 1 || len(tableMs) == 0 {
		return 0
	}
	return tableMs[min(n, len(tableMs))-1]
}

// DefaultErrorBackoffMs returns the delays between the end of a failed run and
// the next, by consecutive errors: 30 s, 1 min, 5 min, 15 min, 1 h.
func DefaultErrorBackoffMs() []int64 {
	return []int64{30_000, 60_000, 300_000, 900_000, 3_600_000}
}

// DefaultRetryBackoffMs returns the delays of retries after transient failures:
// 30 s, 1 min, 5 min.
func DefaultRetryBackoffMs() []int64 {
	return []int64{30_000, 60_000, 300_000}
}
