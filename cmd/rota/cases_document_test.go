package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCasesDocument keeps testdata/cases.md true: what it calls tested has a
// test with that number, and every numbered test is in it.
func TestCasesDocument(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d{3}) \| .* \| (.*) \|$`).FindAllStringSubmatch(string(raw), -1) {
		state[row[1]] = row[2]
	}
	tests := map[string]bool{}
	// In Go a test or a subtest by name, in a document the heading of a section
	// that is one.
	name := regexp.MustCompile(`(?m)(?:^func Test|")Case(\d{3})`)
	section := regexp.MustCompile(`(?m)^(?:## )?Case(\d{3})`)
	err = filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		pattern := name
		if strings.HasSuffix(path, ".txt") {
			pattern = section
		} else if !strings.HasSuffix(path, "_test.go") {
			return err
		}
		if err != nil {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range pattern.FindAllStringSubmatch(string(source), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for number, what := range state {
		if strings.HasPrefix(what, "tested") && !tests[number] {
			t.Errorf("case %s is called tested and has no test", number)
		}
	}
	for number := range tests {
		if state[number] == "" {
			t.Errorf("case %s has a test and no row in testdata/cases.md", number)
		}
	}
	if len(state) < 80 {
		t.Errorf("only %d rows were read", len(state))
	}
}
