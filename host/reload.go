package host

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"
)

// How often the configuration file is looked at: where the system does not tell
// of its changes, and where it does. A daemon that has nothing to do sleeps.
const (
	reloadEvery        = 2 * time.Second
	reloadEveryWatched = 60 * time.Second
)

// ReloadOptions is what a Reloader needs.
type ReloadOptions struct {
	// Path is the file to watch. It need not exist.
	Path string
	// Read reads the whole configuration anew, from Path and from whatever else
	// there is.
	Read func() (Config, error)
	// Current is the configuration that is installed, as Read gave it.
	Current Config
	// Install takes a configuration that is new and valid; its version is above
	// all before.
	Install func(Config)
	// State takes what became of the last look that found a change.
	State func(ConfigState)
	// Now asks for a look at once. Nil = only the file's changes count.
	Now <-chan os.Signal
	// Log takes what was done. Nil = slog.Default().
	Log *slog.Logger
}

// ConfigState is what rota.info says of the configuration.
type ConfigState struct {
	Path string `json:"path"`
	// Version is of the installed configuration; it rises by one each time.
	Version int64 `json:"version"`
	// Error says why what the file holds now is not installed, with its line.
	Error string `json:"error,omitempty"`
	// AtNextStart are keys whose new value waits for a restart.
	AtNextStart []string `json:"atNextStart,omitempty"`
}

// Reloader watches one configuration file while the daemon serves. A document
// is installed whole or not at all: one that is broken, or gone, leaves the last
// one in force. A document that says the same changes nothing.
type Reloader struct {
	o     ReloadOptions
	state ConfigState
	// started is the configuration of the start: what cannot change while
	// serving is compared with it. current is the installed one.
	started, current Config
	seen             glance
}

// glance is what a file looks like from outside.
type glance struct {
	there   bool
	modTime time.Time
	size    int64
	// fresh: the file was written so recently that another write may not show.
	fresh bool
}

// NewReloader takes the file as it is now for the one that Current came from.
func NewReloader(o ReloadOptions) *Reloader {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	r := &Reloader{o: o, started: o.Current, current: o.Current, seen: look(o.Path, time.Now())}
	r.state = ConfigState{Path: o.Path, Version: o.Current.Worker.Version}
	o.State(r.state)
	return r
}

// Run looks until ctx ends.
func (r *Reloader) Run(ctx context.Context) error {
	every, changed := reloadEvery, (<-chan struct{})(nil)
	if w := watch(r.o.Path); w != nil {
		defer w.close()
		every, changed = reloadEveryWatched, w.changed
		r.check(time.Now()) // what changed before the watch
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.o.Now:
			was := r.state.Version
			if r.reload(); r.state.Version == was && r.state.Error == "" {
				r.o.Log.Info("the configuration was read again and says what is in force", "file", r.o.Path)
			}
		case <-changed:
			r.check(time.Now())
		case now := <-tick.C:
			r.check(now)
		}
	}
}

// check reloads when the file is not the one that was seen last.
func (r *Reloader) check(now time.Time) {
	next := look(r.o.Path, now)
	was := r.seen
	if !was.fresh && next.there == was.there && next.size == was.size && next.modTime.Equal(was.modTime) {
		return
	}
	r.reload()
}

// reload reads the file and installs what is new in it.
func (r *Reloader) reload() {
	was := r.seen
	r.seen = look(r.o.Path, time.Now())
	if !r.seen.there {
		if was.there {
			r.keep("the configuration file is gone")
		}
		return
	}
	next, err := r.o.Read()
	if err != nil {
		r.keep(err.Error())
		return
	}
	next.Worker.Version = r.current.Worker.Version
	waits := r.waits(next)
	if reflect.DeepEqual(next, r.current) {
		if r.state.Error != "" {
			r.o.Log.Info("the configuration file is in order again and says what is in force", "file", r.o.Path)
		}
		r.tell(ConfigState{AtNextStart: waits})
		return
	}
	next.Worker.Version++
	r.current = next
	r.o.Install(next)
	r.o.Log.Info("configuration installed", "file", r.o.Path, "version", next.Worker.Version)
	if len(waits) > 0 {
		r.o.Log.Warn("these configuration keys change at the next start only", "keys", strings.Join(waits, ", "))
	}
	for _, warning := range next.Warnings {
		r.o.Log.Warn(warning)
	}
	if len(next.Carried) > 0 {
		r.o.Log.Warn("these configuration keys have no effect in this build", "keys", strings.Join(next.Carried, ", "))
	}
	r.tell(ConfigState{AtNextStart: waits})
}

// keep leaves what is in force and says why, once.
func (r *Reloader) keep(reason string) {
	if reason != r.state.Error {
		r.o.Log.Error("the configuration stays as it was", "file", r.o.Path, "why", reason)
	}
	r.tell(ConfigState{Error: reason, AtNextStart: r.state.AtNextStart})
}

func (r *Reloader) tell(s ConfigState) {
	s.Path, s.Version = r.o.Path, r.current.Worker.Version
	r.state = s
	r.o.State(s)
}

// startKeys are the keys that are read at the start alone.
var startKeys = []struct {
	key   string
	value func(Config) any
}{
	{"cron.durability", func(c Config) any { return c.Durability }},
	{"cron.cleanupGraceSeconds", func(c Config) any { return c.Worker.CleanupGraceMs }},
}

// waits names what the next start will do otherwise.
func (r *Reloader) waits(next Config) (keys []string) {
	for _, k := range startKeys {
		if k.value(next) != k.value(r.started) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// look glances at a file. One that cannot be looked at is read, which says why.
func look(path string, now time.Time) glance {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return glance{}
	case err != nil:
		return glance{there: true}
	}
	age := now.Sub(st.ModTime())
	return glance{there: true, modTime: st.ModTime(), size: st.Size(), fresh: age >= 0 && age < reloadEvery}
}
