//go:build unix

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// crashPlantRounds bounds how often a bug gets its chance: each round is the
// short form's kills once.
const crashPlantRounds = 4

// TestPlantedBugsAreFound plants the bugs of testdata/crash/plants, one at a
// time, and demands that the kills and the judgement of TestKillAnywhere find
// each. A harness that finds nothing in a broken program proves nothing about
// a sound one. A plant whose text is no longer in the source fails: bring it
// up to date.
func TestPlantedBugsAreFound(t *testing.T) {
	t.Parallel()
	plants, err := filepath.Glob(crashDocument("plants/*.txt"))
	if err != nil || len(plants) < 6 {
		t.Fatalf("the plants are not there: %v %v", plants, err)
	}
	for _, path := range plants {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := readCrashPlant(t, path)
			bugged := p.build(t, t.TempDir())
			x := newCrashTrial(t, bugged, bugged)
			found := x.hunt(p)
			t.Logf("%v after %d kills in %v, seed %d", found, x.killed, time.Since(x.began).Round(time.Second), x.seed)
			switch nothing := p.find[0] == "nothing"; {
			case nothing && len(found) > 0:
				t.Errorf("found in a sound program: %v", found)
			case !nothing && len(found) == 0:
				t.Errorf("not found: none of %v in %d kills", p.find, x.killed)
			}
		})
	}
}

// hunt kills until there are violations of the kinds that the plant names, or
// of any kind where it says that there must be none.
func (x *crashTrial) hunt(p crashPlant) []crashViolation {
	rounds := crashPlantRounds
	if p.find[0] == "nothing" {
		rounds = 1
	}
	for range rounds {
		kills := readCrashKills(x.t, false)
		x.rng.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
		for i, k := range kills {
			x.kill(k)
			if found := wanted(p, x.look().judge()); len(found) > 0 {
				return found
			}
			if (i+1)%4 != 0 {
				continue
			}
			if found := wanted(p, x.settle().judge()); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// wanted are the violations that a plant is about, at most three.
func wanted(p crashPlant, found []crashViolation) []crashViolation {
	var some []crashViolation
	for _, v := range found {
		if p.find[0] == "nothing" || slices.Contains(p.find, v.kind) {
			some = append(some, v)
		}
	}
	return some[:min(len(some), 3)]
}
