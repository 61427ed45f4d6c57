// Command rota schedules jobs on one machine: `rota serve` is the daemon,
// everything else asks it or computes without it.
//
// Each verb is one file. A verb parses, asks, and returns an error; printing
// is in print.go and table.go, and exit codes are decided here, once. What
// scripts may rely on (exit codes, JSON shapes) is said in the help of each
// verb and in the README.
package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the whole program on given streams; it returns the exit code.
func run(args []string, in io.Reader, out, talk *os.File) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks; after it the second one ends the process at once.
	context.AfterFunc(ctx, stop)

	a := &app{in: in, out: bufio.NewWriterSize(out, 64<<10), talk: talk, color: "auto", terminal: isTerminal(out)}
	defer a.hangUp()
	root := newRootCommand(a)
	root.SetArgs(args)
	verb, err := root.ExecuteContextC(ctx)
	var fail *failure
	if err != nil {
		if fail = failureOf(err); ctx.Err() != nil && errors.Is(err, context.Canceled) {
			fail = &failure{Exit: exitInterrupted, Code: "interrupted", Message: "interrupted"}
		}
		a.report(verb, args, fail)
	}
	if err := a.out.Flush(); err != nil {
		if errors.Is(err, syscall.EPIPE) {
			return exitCode(verb, fail) // the reader has seen enough
		}
		a.talkf("rota: cannot write the output: %v\n", err)
		return exitIO
	}
	return exitCode(verb, fail)
}
