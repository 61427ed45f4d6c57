package main

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

// robfig/cron: entries in a slice that is sorted at each wake-up, a goroutine a
// start.
func openRobfig(int) (*crons, error) {
	c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC))
	return &crons{
		add: func(second, minute, hour int, run func()) error {
			_, err := c.AddFunc(fmt.Sprintf("%d %d %d * * *", second, minute, hour), run)
			return err
		},
		start: c.Start,
		stop:  func() { <-c.Stop().Done() },
	}, nil
}
