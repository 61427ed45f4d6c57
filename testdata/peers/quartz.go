package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/reugn/go-quartz/job"
	"github.com/reugn/go-quartz/quartz"
)

// openQuartz opens go-quartz: a priority queue of jobs and one loop that takes
// the due ones. A job that it comes to later than the threshold is not started
// but moved to its next time; zero is its default, 100 ms.
func openQuartz(outdated time.Duration) func(int) (*crons, error) {
	return func(jobs int) (*crons, error) {
		misfired := make(chan quartz.ScheduledJob, jobs) // it never blocks on this
		options := []quartz.SchedulerOpt{quartz.WithMisfiredChan(misfired)}
		if outdated > 0 {
			options = append(options, quartz.WithOutdatedThreshold(outdated))
		}
		s, err := quartz.NewStdScheduler(options...)
		if err != nil {
			return nil, err
		}
		added := 0
		return &crons{
			add: func(second, minute, hour int, run func()) error {
				trigger, err := quartz.NewCronTrigger(fmt.Sprintf("%d %d %d * * ?", second, minute, hour))
				if err != nil {
					return err
				}
				added++
				work := job.NewFunctionJob(func(context.Context) (bool, error) {
					run()
					return true, nil
				})
				return s.ScheduleJob(quartz.NewJobDetail(work, quartz.NewJobKey(strconv.Itoa(added))), trigger)
			},
			start:   func() { s.Start(context.Background()) },
			dropped: func() int { return len(misfired) },
			stop:    s.Stop,
		}, nil
	}
}
