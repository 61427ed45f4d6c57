//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// Variable is the environment variable that arms one point, as "name:n".
const Variable = "ROTA_FAILPOINT"

// armed is read once: the process that carries it is made to die.
var armed = parse(os.Getenv(Variable))

type point struct {
	name string
	left atomic.Int64 // hits until the kill
}

// parse reads "name:n"; ":n" may be left out and is then 1. A value that
// cannot be read ends the process, so that a test never runs unarmed.
func parse(value string) *point {
	if value == "" {
		return nil
	}
	name, count, found := strings.Cut(value, ":")
	n := int64(1)
	if found {
		parsed, err := strconv.ParseInt(count, 10, 64)
		if err != nil || parsed < 1 {
			fmt.Fprintf(os.Stderr, "%s=%q is not name:n with n ≥ 1\n", Variable, value)
			os.Exit(2)
		}
		n = parsed
	}
	p := &point{name: name}
	p.left.Store(n)
	return p
}

// Hit kills the own process when it is the armed hit of name.
func Hit(name string) {
	if armed == nil || armed.name != name || armed.left.Add(-1) != 0 {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "failpoint %s: %v\n", name, err)
		os.Exit(2)
	}
	select {} // the kill is on its way; nothing after the point may happen
}
