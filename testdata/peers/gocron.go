package main

import (
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"
)

// gocron: a timer a job, an executor and a scheduler that talk over channels.
func openGocron(int) (*crons, error) {
	s, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		return nil, err
	}
	return &crons{
		add: func(second, minute, hour int, run func()) error {
			_, err := s.NewJob(gocron.CronJob(fmt.Sprintf("%d %d %d * * *", second, minute, hour), true), gocron.NewTask(run))
			return err
		},
		start: s.Start,
		stop: func() {
			if err := s.Shutdown(); err != nil {
				complain("gocron: %v", err)
			}
		},
	}, nil
}
