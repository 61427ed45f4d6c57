// Peers measures the same work on rota and on schedulers and queues that people
// use beside it, and prints how they compare: ratios that are formed within one
// run, on one machine, at one durability. See README.md for what is measured,
// and what that does not say.
//
// Each side runs in a process of its own: rota as the binary that it is, a peer
// as this program again, with "side" as its first argument.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if len(os.Args) > 1 && os.Args[1] == "side" {
		err = runSide(ctx, os.Args[2:], os.Stdout)
	} else {
		err = compare(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// compare is the program as its user calls it.
func compare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var p plan
	flags.IntVar(&p.Rounds, "rounds", 5, "how often each side is measured")
	flags.IntVar(&p.Runs, "runs", 20_000, "drain: how many runs")
	flags.IntVar(&p.InFlight, "inflight", 256, "drain: how many are open at once")
	flags.IntVar(&p.Jobs, "jobs", 1000, "drain: how many jobs rota's file has")
	flags.IntVar(&p.Finished, "finished", 16, "drain: how many finished runs a job the files hold at the start")
	flags.DurationVar(&p.Limit, "limit", 30*time.Second, "drain: a peer asks for nothing more after this time")
	flags.StringVar(&p.Only, "only", "", "drain or burst")
	flags.StringVar(&p.dir, "dir", "", "where the scratch files go: the disk that is measured (default: the temporary directory)")
	flags.StringVar(&p.rota, "rota", "", "measure this rota binary instead of building one")
	bursts := flags.String("bursts", "1000,10000", "burst: how many jobs are due in one second")
	peers := flags.String("peers", "", "only these, separated by commas: river, river-fast, goqite, … (default: all)")
	short := flags.Bool("short", false, "a smoke test of some seconds: one round with small numbers, good for no conclusion")
	asJSON := flags.Bool("json", false, "print every record as JSON")
	markdown := flags.Bool("markdown", false, "print the tables as Markdown")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *short {
		p.Rounds, p.Runs, p.Finished, *bursts = 1, 600, 2, "100"
		p.Jobs = p.InFlight
	}
	if *peers != "" {
		p.Peers = strings.Split(*peers, ",")
	}
	for text := range strings.SplitSeq(*bursts, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("-bursts: %q is not a number", text)
		}
		p.Bursts = append(p.Bursts, n)
	}
	if p.dir == "" {
		p.dir = os.TempDir()
	}
	m := thisMachine(p.dir)
	if m.FileSystem == "tmpfs" {
		fmt.Fprintf(stderr, "%s is in memory, where a sync costs nothing: name a directory on a disk with -dir\n", p.dir)
	}
	h := harness{plan: p, log: stderr}
	trials, err := h.run(ctx)
	if err != nil {
		return err
	}
	switch {
	case *asJSON:
		err = printJSON(stdout, m, p, trials)
	case *markdown:
		printMarkdown(stdout, m, trials)
	default:
		printText(stdout, m, trials)
	}
	failed := 0
	for _, t := range trials {
		failed += len(t.Failures)
	}
	if failed > 0 {
		return errors.Join(err, fmt.Errorf("%d measurements failed and are in no figure", failed))
	}
	return err
}

func printJSON(w io.Writer, m machine, p plan, trials []*trial) error {
	type ratio struct {
		Trial  string `json:"trial"`
		Peer   string `json:"peer"`
		Figure string `json:"figure"` // rota's divided by the peer's
		spread
	}
	ratios := []ratio{}
	for _, t := range trials {
		for _, peer := range t.Sides[1:] {
			for _, c := range t.columns() {
				if s, ok := t.ratio(peer, c.value); ok && c.ratio != "" {
					ratios = append(ratios, ratio{t.Name, peer, c.head, s})
				}
			}
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"machine": m, "plan": p, "trials": trials, "ratios": ratios})
}
