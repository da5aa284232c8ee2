//go:build unix

package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// stubs are commands that say what the real ones say, but for those that other gives. chaos waits to be stopped as long as
// there is a file named wait, and tells that it does.
func stubs(t *testing.T, other map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	scripts := map[string]string{
		"sim": `echo "seeds=$2 counted=1 faults=3 commits=40 crashes=2 violations=0 seeds_per_hour=7"`,
		"chaos": `cd "$(dirname "$0")" && [ -f wait ] && { touch waits; exec sleep 600; }
echo "cycles=$2 kills=1 fenced=0 aborted=2 reinits=1 commit_unknown=0 records=100 violations=0"`,
		"storm": `echo "queries=50 values=45 failures_by_kind=StateStoreMigrated:5 untyped=0 late=0 lies=0"`,
	}
	maps.Copy(scripts, other)
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// awaitFile calls then when there is a file of that name.
func awaitFile(ctx context.Context, name string, then func()) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(name); err == nil {
			then()
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func run(t *testing.T, ctx context.Context, out *strings.Builder, args ...string) int {
	t.Helper()
	s, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	return soak(ctx, s, out)
}

// What is stopped in the middle is not counted, and is done again, with the same seed, when it goes on.
func TestStopAndContinue(t *testing.T) {
	bin := stubs(t, nil)
	file, wait := filepath.Join(bin, "soak.json"), filepath.Join(bin, "wait")
	if err := os.WriteFile(wait, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go awaitFile(ctx, filepath.Join(bin, "waits"), stop)
	out := &strings.Builder{}
	if code := run(t, ctx, out, "-bin", bin, "-file", file, "-seeds", "10", "-cycles", "4"); code != 0 {
		t.Fatal(code, out.String())
	}
	told := regexp.MustCompile(`(?m)^sim: commits=40 counted=1 crashes=2 faults=3 runs=1 seconds=\d+ seeds=10 violations=0$`)
	if got := out.String(); !strings.Contains(got, "rounds=0 violations=0\nsim: ") || !told.MatchString(got) || strings.Contains(got, "kills=") {
		t.Fatal(got)
	}
	if err := os.Remove(wait); err != nil {
		t.Fatal(err)
	}
	out = &strings.Builder{}
	if code := run(t, t.Context(), out, "-bin", bin, "-file", file, "-seeds", "10", "-cycles", "4", "-rounds", "2"); code != 0 {
		t.Fatal(code, out.String())
	}
	got := out.String()
	for _, want := range []string{"round 1: chaos from seed 1000000\n", "round 2: sim from seed 1000010\n", "round 2: chaos from seed 1000001\n",
		"rounds=2 violations=0\n", "chaos: aborted=4 commit_unknown=0 cycles=8 ", "sim: commits=80 ", "storm: late=0 lies=0 queries=100 "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "round 1: sim") {
		t.Error("a step was done twice")
	}
}

// A violation is in the file, with the command that repeats it, and every later run says so.
func TestViolationsAreKept(t *testing.T) {
	for why, bin := range map[string]string{
		"violations=2":                stubs(t, map[string]string{"sim": `echo "seeds=10 violations=2 seeds_per_hour=1"; exit 1`}),
		"exit status 1":               stubs(t, map[string]string{"sim": `echo "seeds=10 violations=0"; exit 1`}),
		"it has not said violations=": stubs(t, map[string]string{"sim": "echo nothing"}),
		"lies=1":                      stubs(t, map[string]string{"storm": `echo "queries=50 untyped=0 late=0 lies=1"`}),
	} {
		file := filepath.Join(bin, "soak.json")
		args := []string{"-bin", bin, "-file", file, "-seeds", "10", "-rounds", "2"}
		for range 2 {
			out := &strings.Builder{}
			if code := run(t, t.Context(), out, args...); code != 1 || !strings.Contains(out.String(), "VIOLATION: "+why) || !strings.Contains(out.String(), "go run ./internal/") {
				t.Errorf("%s: %d\n%s", why, code, out)
			}
			args = append(args, "-parts", "chaos") // what was wrong does not run again
		}
	}
}

func TestFileThatHoldsSomethingElse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "soak.json")
	if err := os.WriteFile(file, []byte("not totals"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &strings.Builder{}
	if code := run(t, t.Context(), out, "-file", file); code != 2 || !strings.Contains(out.String(), "name another -file") {
		t.Error(code, out.String())
	}
	for _, args := range [][]string{{"-parts", "chaos,rain"}, {"-seeds", "0"}, {"x"}} {
		if _, err := parse(args); err == nil {
			t.Error(args)
		}
	}
}
