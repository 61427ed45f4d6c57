// Package failpoint names the moments at which a crash is worth testing.
//
// In an ordinary build Hit is an empty function and costs nothing. With the
// build tag "failpoint", and ROTA_FAILPOINT=name:n in the environment, the
// n-th Hit of that name kills the own process with SIGKILL: no deferred
// function runs and no buffer is flushed, as in a real crash. It injects
// nothing else: no errors, no delays.
//
// Caveat: the kill is asynchronous in principle, so Hit never returns after
// it; nothing behind the point can happen.
package failpoint
