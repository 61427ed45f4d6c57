package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rota-scheduler/rota/host"
)

const (
	defaultTimeoutMs = 30_000
	runTimeoutMs     = 600_000
)

// dial opens the connection of this command, once.
func (a *app) dial() (*host.Client, error) {
	if a.client != nil {
		return a.client, nil
	}
	client, err := a.dialAgain()
	a.client = client
	return client, err
}

// dialAgain opens a further connection, for a subscription.
func (a *app) dialAgain() (*host.Client, error) {
	env := hostEnvironment()
	dir, _, err := stateDir(a.stateDirFlag, env)
	if err != nil {
		return nil, err
	}
	return host.Dial(socketPath(dir, env))
}

func (a *app) hangUp() {
	if a.client != nil {
		_ = a.client.Close()
	}
}

// call asks the daemon, within the timeout of the command.
func (a *app) call(ctx context.Context, method string, params, result any) error {
	client, err := a.dial()
	if err != nil {
		return err
	}
	timeoutMs := a.timeoutMs
	if timeoutMs == 0 {
		timeoutMs = defaultTimeoutMs
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(timeoutMs)*time.Millisecond)
	defer cancel()
	return client.Call(ctx, method, params, result)
}

// callRaw is call for an answer that is printed as it came.
func (a *app) callRaw(ctx context.Context, method string, params any) (json.RawMessage, error) {
	var raw json.RawMessage
	err := a.call(ctx, method, params, &raw)
	return raw, a.hintName(ctx, err)
}

// hintName tells whoever gave a job's name where an id is needed.
func (a *app) hintName(ctx context.Context, err error) error {
	var wire *host.WireError
	if !errors.As(err, &wire) || wire.Detail("code") != host.DetailJobNotFound {
		return err
	}
	name := wire.Detail("jobId")
	var page jobPage
	if a.call(ctx, "cron.list", listParams{IncludeDisabled: true, Query: name, Limit: 200}, &page) != nil {
		return err
	}
	for _, raw := range page.Jobs {
		var j jobView
		if json.Unmarshal(raw, &j) == nil && j.Name == name {
			f := wireFailure(wire)
			f.Hint = "the job of that name has the id " + j.ID
			return f
		}
	}
	return err
}

// ask calls a method and prints its answer as it is.
func (a *app) ask(ctx context.Context, method string, params any) error {
	raw, err := a.callRaw(ctx, method, params)
	if err == nil {
		a.printJSON(raw)
	}
	return err
}
