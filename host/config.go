package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/rota-scheduler/rota/worker"
)

// Config is one whole configuration document.
type Config struct {
	Worker worker.Config
	// Locking is "exclusive" or "normal", Durability "full" or "normal"; empty
	// where the document does not say.
	Locking    string
	Durability string
	// Zone is the document's time zone; empty where it does not say.
	Zone string
	// RateLimit is how many calls of one writing method a client on the network
	// may make in a minute; 0 = no limit. Defaults to 30.
	RateLimit int
	// Warnings are what a document allows and its owner may not have meant: one
	// sentence each, for the log of a start. None repeats a secret.
	Warnings []string
	// Carried are keys that belong to what this build does not have yet:
	// checked, kept, and acted on by nothing. Their names are sorted.
	Carried []string
}

// ReadConfig reads the document at path over base, the configuration of an
// installation without one. A file that is not there gives base. A refusal is
// a *FileError and refuses the whole document.
func ReadConfig(path string, base worker.Config) (Config, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return newConfig(base), nil
	}
	raw, err := readBounded(path)
	if err != nil {
		return Config{}, err
	}
	return ParseConfig(path, raw, base)
}

// ParseConfig is ReadConfig on bytes; file is for messages.
func ParseConfig(file string, raw []byte, base worker.Config) (Config, error) {
	return newConfig(base).over(file, raw)
}

// over reads a document over c.
func (c Config) over(file string, raw []byte) (Config, error) {
	d := newDocument(file, raw)
	if err := d.open('{', "the configuration must be an object"); err != nil {
		return Config{}, err
	}
	if err := d.config(&c, ""); err != nil {
		return Config{}, err
	}
	if err := d.end(); err != nil {
		return Config{}, err
	}
	sort.Strings(c.Carried)
	c.Carried = slices.Compact(c.Carried) // a jobs file may say again what the document says
	c.Warnings = configWarnings(&c)
	return c, nil
}

// DefaultConfig is the document of an installation without one.
func DefaultConfig() Config { return newConfig(worker.DefaultConfig()) }

func newConfig(base worker.Config) Config {
	return Config{Worker: base, RateLimit: DefaultRateLimit}
}

// config reads the members of an opened object whose path is prefix.
func (d *document) config(c *Config, prefix string) error {
	return d.members(func(key string, line int) error {
		path := prefix + key
		if strings.Contains(key, ".") { // "a.b" is not the key b of a
			return d.fault(line, fmt.Sprintf("unknown key %q", key), knownKeys(prefix))
		}
		if instead, retired := retiredKeys[path]; retired {
			return d.fault(line, path+" is retired: "+instead, "take it out")
		}
		if isConfigGroup(path) {
			if err := d.open('{', path+" must be an object"); err != nil {
				return err
			}
			return d.config(c, path+".")
		}
		take, ok := configKeys[path]
		if !ok {
			return d.fault(line, fmt.Sprintf("unknown key %q", path), knownKeys(prefix))
		}
		raw, err := d.value()
		if err != nil {
			return err
		}
		if reason := take(c, path, raw); reason != "" {
			return d.fault(line, path+" "+reason, "")
		}
		return nil
	})
}

// isConfigGroup reports whether path is an object that holds other keys.
func isConfigGroup(path string) bool {
	for key := range configKeys {
		if strings.HasPrefix(key, path+".") {
			return true
		}
	}
	return false
}

// knownKeys lists what may stand where an unknown key stood.
func knownKeys(prefix string) string {
	seen := map[string]bool{}
	var names []string
	for key := range configKeys {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return "known here: " + strings.Join(names, ", ")
}

// A taker checks a value and puts it where it belongs; it answers what is
// wrong, or "".
type taker func(c *Config, path string, raw json.RawMessage) string
