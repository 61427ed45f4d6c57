package main

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more parallel tests run at once than there are processors: those
// of this package spend their time waiting for the processes that they start.
// -parallel on the command line wins.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", "5"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
