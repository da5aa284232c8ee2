package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// totals are the figures of one run, or of many.
type totals struct {
	Runs, Failed, Cycles   int
	Kills, Stops, Restarts int
	counters
	Records    int64
	Violations int
	Seeds      []uint64
}

// String is the line that a run ends with.
func (t totals) String() string {
	return fmt.Sprintf("cycles=%d kills=%d fenced=%d aborted=%d reinits=%d commit_unknown=%d records=%d violations=%d",
		t.Cycles, t.Kills, t.Fenced, t.Aborted, t.Reinits, t.CommitUnknown, t.Records, t.Violations)
}

func (t *totals) add(o totals) {
	t.Runs += o.Runs
	t.Failed += o.Failed
	t.Cycles += o.Cycles
	t.Kills += o.Kills
	t.Stops += o.Stops
	t.Restarts += o.Restarts
	t.counters.add(o.counters)
	t.Records += o.Records
	t.Violations += o.Violations
	t.Seeds = append(t.Seeds, o.Seeds...)
}

// addTo adds t to the totals in a file, which is made if it is missing.
func (t totals) addTo(path string) error {
	var all totals
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(text, &all); err != nil {
			return fmt.Errorf("%s does not hold totals: %w", path, err)
		}
	}
	all.add(t)
	if text, err = json.MarshalIndent(all, "", "  "); err != nil {
		return err
	}
	return writeWhole(path, append(text, '\n'))
}
