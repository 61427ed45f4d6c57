package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	ownModule    = "github.com/rota-scheduler/rota"
	systemModule = "golang.org/x/sys" // what the standard library leaves out of system calls
)

// importRules say which packages of this module each package may import. The
// decisions know no host and no launcher, the effects know no database, and
// neither knows the other: only the program knows all.
var importRules = map[string][]string{
	"schedule":         {},
	"store/rawjson":    {},
	"store":            {"store/rawjson"},
	"store/aged":       {"store", "store/rawjson"},
	"worker/failpoint": {},
	"worker/job":       {"schedule", "store/rawjson"},
	"worker":           {"schedule", "store", "store/rawjson", "worker/job", "worker/failpoint"},
	"launcher":         {"schedule", "worker", "worker/job", "worker/failpoint"},
	"host":             {"schedule", "store/rawjson", "worker", "worker/job"}, // rawjson edits bytes and knows no database
	"cmd/rota":         {"schedule", "store", "store/aged", "store/rawjson", "worker", "worker/job", "worker/failpoint", "launcher", "host"},
}

// moduleOwners name the one package that imports each other module.
var moduleOwners = map[string]string{
	"github.com/robfig/cron/v3":  "schedule",
	"modernc.org/sqlite":         "store",
	"github.com/coder/websocket": "host",
	"github.com/google/uuid":     "cmd/rota",
	"github.com/lmittmann/tint":  "cmd/rota",
	"github.com/oklog/run":       "cmd/rota",
	"github.com/spf13/cobra":     "cmd/rota",
	"github.com/spf13/pflag":     "cmd/rota",
}

// systemUsers may make system calls of their own, each for its own platform files.
var systemUsers = []string{"launcher", "host", "cmd/rota"}

// testLibraries have no place in a program.
var testLibraries = []string{"testing", "net/http/httptest", "github.com/stretchr", "github.com/google/go-cmp", "pgregory.net/rapid", "go.uber.org/goleak"}

// platforms are where imports may differ.
var platforms = []struct{ goos, tags string }{{"linux", ""}, {"darwin", ""}, {"windows", ""}, {"linux", "failpoint"}}

func TestImportsFollowTheArchitecture(t *testing.T) {
	usedModules, seen := map[string]bool{}, map[string]bool{}
	for _, platform := range platforms {
		packages, moduleOf := listImports(t, platform.goos, platform.tags)
		for name, imports := range packages {
			seen[name] = true
			rule, known := importRules[name]
			if !known {
				t.Errorf("%s: a new package; say in importRules what it may import", name)
				continue
			}
			for _, path := range imports {
				if slices.ContainsFunc(testLibraries, func(lib string) bool { return path == lib || strings.HasPrefix(path, lib+"/") }) {
					t.Errorf("%s on %s imports %s, which is for tests", name, platform.goos, path)
				}
				module := moduleOf[path]
				switch {
				case module == "": // standard library
				case module == ownModule:
					if own := strings.TrimPrefix(path, ownModule+"/"); !slices.Contains(rule, own) {
						t.Errorf("%s on %s imports %s", name, platform.goos, own)
					}
				case module == systemModule:
					if !slices.Contains(systemUsers, name) {
						t.Errorf("%s on %s imports %s", name, platform.goos, path)
					}
				default:
					usedModules[module] = true
					if moduleOwners[module] != name {
						t.Errorf("%s on %s imports %s; its only importer is to be %q", name, platform.goos, path, moduleOwners[module])
					}
				}
			}
		}
	}
	for module, owner := range moduleOwners {
		if !usedModules[module] {
			t.Errorf("nobody imports %s any more: take it from moduleOwners (%s)", module, owner)
		}
	}
	for name := range importRules {
		if !seen[name] {
			t.Errorf("there is no package %s any more: take it from importRules", name)
		}
	}
}

// listImports gives the imports of every package of this module, tests not
// counted, and the module of each package; "" is the standard library.
func listImports(t *testing.T, goos, tags string) (packages map[string][]string, moduleOf map[string]string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports,Standard,Module", "-tags", tags, "./...")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos)
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, talk.String())
	}
	packages, moduleOf = map[string][]string{}, map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
			Standard   bool
			Module     *struct{ Path string }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages, moduleOf
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Standard {
			continue
		}
		if p.Module == nil {
			t.Fatalf("%s belongs to no module", p.ImportPath)
		}
		moduleOf[p.ImportPath] = p.Module.Path
		if p.Module.Path == ownModule {
			packages[strings.TrimPrefix(p.ImportPath, ownModule+"/")] = p.Imports
		}
	}
}
