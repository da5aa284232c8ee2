package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTotalsAddUpInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "totals.json")
	a := totals{Runs: 1, Cycles: 5, Kills: 2, Records: 100, counters: counters{Aborted: 3, Fenced: 1}, Seeds: []uint64{7}}
	b := totals{Runs: 1, Failed: 1, Cycles: 3, Records: 50, Violations: 2, counters: counters{Aborted: 1, CommitUnknown: 4}, Seeds: []uint64{8}}
	for _, one := range []totals{a, b} {
		if err := one.addTo(path); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got totals
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := "cycles=8 kills=2 fenced=1 aborted=4 reinits=0 commit_unknown=4 records=150 violations=2"
	if got.String() != want || got.Runs != 2 || got.Failed != 1 || !slices.Equal(got.Seeds, []uint64{7, 8}) {
		t.Errorf("got %s of %+v", got, got)
	}
}

// A file that holds something else is not overwritten.
func TestTotalsLeaveOtherFilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(path, []byte("dear diary"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (totals{}).addTo(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "dear diary" {
		t.Errorf("the file is now %q, %v", text, err)
	}
}

// The last whole line counts; a process that was killed while it wrote leaves half of one.
func TestCountersOfAKilledProcess(t *testing.T) {
	n := newNode(1, t.TempDir(), "", settings{})
	if _, ok := n.counters(1); ok {
		t.Error("a process that wrote nothing has counters")
	}
	if err := os.MkdirAll(n.path(), 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"Committed":1}` + "\n" + `{"Committed":9,"Aborted":2,"Producers":2}` + "\n" + `{"Committed":12,"Abor`
	if err := os.WriteFile(n.report(1)+countsSuffix, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := n.counters(1); !ok || got.Committed != 9 || got.Aborted != 2 || got.Producers != 2 {
		t.Errorf("got %+v", got)
	}
}
