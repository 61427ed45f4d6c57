package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rota-scheduler/rota/host"
)

const (
	defaultTimeoutMs = 30_000
	runTimeoutMs     = 600_000
)

// dial gives the connection of this command to a caller of method. A gateway is
// asked for the least scope that does; one that does not do any more is replaced.
func (a *app) dial(ctx context.Context, method string) (*host.Client, error) {
	need := host.ScopeOf(method)
	if a.client != nil {
		if a.scope == need || a.scope == host.ScopeAdmin {
			return a.client, nil
		}
		a.hangUp()
	}
	client, scope, err := a.connect(ctx, need)
	a.client, a.scope = client, scope
	return client, err
}

// dialAgain opens a further connection, for a subscription.
func (a *app) dialAgain(ctx context.Context) (*host.Client, error) {
	client, _, err := a.connect(ctx, host.ScopeRead)
	return client, err
}

// connect opens a connection to the socket, which grants everything, or to the
// gateway that a flag or the environment names.
func (a *app) connect(ctx context.Context, need string) (client *host.Client, scope string, err error) {
	env := hostEnvironment()
	dir, _, err := stateDir(a.stateDirFlag, env)
	if err != nil && a.url() == "" {
		return nil, "", err
	}
	if a.url() == "" {
		client, err = host.Dial(socketPath(dir, env))
		return client, host.ScopeAdmin, err
	}
	token, err := a.token(dir)
	if err != nil {
		return nil, "", err
	}
	client, err = host.DialURL(ctx, host.Remote{URL: a.url(), Token: token, Scopes: []string{need}, Version: programVersion()})
	return client, need, err
}

func (a *app) url() string { return cmp.Or(a.urlFlag, os.Getenv("ROTA_URL")) }

// token is what the gateway wants. For one on this machine the state
// directory's is tried; no other one is ever sent anywhere by itself.
func (a *app) token(dir string) (string, error) {
	loopback, err := host.CheckURL(a.url())
	if err != nil {
		f := usage("%v", err)
		f.Hint = "the ready line of rota serve has the url: ws://127.0.0.1:7682"
		return "", f
	}
	if given := cmp.Or(a.tokenFlag, os.Getenv("ROTA_TOKEN")); given != "" {
		if !loopback && strings.HasPrefix(a.url(), "ws://") && !a.warned {
			a.warned = true
			a.talkf("the token goes to %s unencrypted\n", escapeText(a.url()))
		}
		return given, nil
	}
	noToken := &failure{Exit: exitNotAllowed, Code: "no_token", Message: "there is no token for " + a.url(),
		Hint: "give it with ROTA_TOKEN or --token; it is in the file `token` of that daemon's state directory"}
	if !loopback || dir == "" {
		return "", noToken
	}
	token, err := host.ReadToken(tokenPath(dir))
	if err != nil {
		noToken.Message += ": " + err.Error()
		noToken.Err = err
		return "", noToken
	}
	return token, nil
}

func tokenPath(dir string) string { return filepath.Join(dir, "token") }

func (a *app) hangUp() {
	if a.client != nil {
		_ = a.client.Close()
		a.client = nil
	}
}

// call asks the daemon, within the timeout of the command.
func (a *app) call(ctx context.Context, method string, params, result any) error {
	timeoutMs := a.timeoutMs
	if timeoutMs == 0 {
		timeoutMs = defaultTimeoutMs
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(timeoutMs)*time.Millisecond)
	defer cancel()
	client, err := a.dial(ctx, method)
	if err != nil {
		return err
	}
	return client.Call(ctx, method, params, result)
}

// outlives reports whether err is no answer, but a daemon that stops or the
// loss of the connection, which a run's record outlives: the next call dials
// again. The first loss is told.
func (a *app) outlives(err error) bool {
	var none *host.NoServerError
	var ended *host.ClosedError
	var broken *net.OpError
	var refusal *host.WireError
	if errors.As(err, &refusal) && refusal.Retryable {
		return true
	}
	if !errors.As(err, &none) && !errors.As(err, &ended) && !errors.As(err, &broken) && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		return false
	}
	a.hangUp()
	if !a.lost {
		a.lost = true
		a.talkf("the connection is lost: %s; it is tried again until the run has ended\n", escapeText(err.Error()))
	}
	return true
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
