package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repeated is how many seeds are run twice, first how many are held against the truth here; make sim runs more.
var repeated, first uint64 = 100, 20

// A seed is the same run for ever: byte for byte.
func TestTranscriptOfASeedIsTheSame(t *testing.T) {
	digest := func(seed uint64) string {
		h := sha256.New()
		play(fromSeed(seed), h)
		return fmt.Sprintf("%x", h.Sum(nil))
	}
	for seed := uint64(1); seed <= repeated; seed++ {
		if a, b := digest(seed), digest(seed); a != b {
			t.Fatalf("seed %d has two transcripts; compare what go run ./internal/sim -seed %d -transcript prints", seed, seed)
		}
	}
}

// Every seed keeps the promises, and nearly every one is worth something.
func TestSeeds(t *testing.T) {
	all := newTally()
	for seed := uint64(1001); seed <= 1000+first; seed++ {
		one, hurt := play(fromSeed(seed), nil)
		if hurt != nil {
			t.Fatalf("seed %d: %s", seed, hurt.text)
		}
		all.add(&one)
	}
	if all.Counted*10 < all.Seeds*8 {
		t.Errorf("%d of %d seeds count", all.Counted, all.Seeds)
	}
}

// What was found once is not lost again. A file is what go run ./internal/sim wrote when a seed failed.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			one, hurt := play(s, nil)
			if hurt != nil {
				t.Fatal(hurt.text)
			}
			if one.faults() == 0 {
				t.Error("no fault has fired")
			}
		})
	}
}

// A scenario is read as it was written.
func TestScenarioIsItsText(t *testing.T) {
	for seed := range uint64(200) {
		s := fromSeed(seed)
		again, err := parse(s.String())
		if err != nil {
			t.Fatal(err)
		}
		if again.String() != s.String() {
			t.Fatalf("written\n%sread\n%s", s, again)
		}
	}
	for _, bad := range []string{"", "cluster seed=x", "fault kind=nothing", "what is this"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is a scenario", bad)
		}
	}
}

// A scenario that fails because of two of its faults is shrunk to these two, and to few records.
func TestShrinkKeepsWhatMatters(t *testing.T) {
	s := fromSeed(3)
	needed := map[time.Duration]bool{s.Faults[2].At: true, s.Faults[9].At: true}
	fails := func(s *scenario) *violation {
		n := 0
		for _, f := range s.Faults {
			if needed[f.At] {
				n++
			}
		}
		if n == len(needed) && s.Records >= 20 {
			return &violation{"it fails"}
		}
		return nil
	}
	small, why := shrink(s, fails(s), fails)
	if why == nil || len(small.Faults) != len(needed) || small.Records > 40 || fails(small) == nil {
		t.Errorf("%v is left: %s", why, small)
	}
	if len(s.Faults) < planned || s.Records < 300 {
		t.Error("the scenario itself was changed")
	}
}

// A run in which a kind of fault never fired has proved nothing about it.
func TestSilentKindsFailALargeRun(t *testing.T) {
	all := newTally()
	all.Seeds = 1000
	for i := range kinds {
		all.Fired[kind(i+1)] = 1
	}
	o := options{}
	if code := o.judge(&strings.Builder{}, &all, nil); code != 0 {
		t.Error("all have fired")
	}
	delete(all.Fired, kindLate)
	var out strings.Builder
	if code := o.judge(&out, &all, nil); code != 1 || !strings.Contains(out.String(), "late-request") {
		t.Errorf("%d: %s", code, &out)
	}
}
