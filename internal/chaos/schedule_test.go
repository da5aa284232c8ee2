package main

import (
	"slices"
	"testing"
)

func TestScheduleIsAFunctionOfTheSeed(t *testing.T) {
	for seed := range uint64(50) {
		long := schedule(seed, 60)
		if !slices.Equal(long, schedule(seed, 60)) {
			t.Fatalf("seed %d gives two schedules", seed)
		}
		for _, n := range []int{0, 1, 5, 17} {
			if !slices.Equal(long[:n], schedule(seed, n)) {
				t.Fatalf("seed %d: the first %d faults depend on how many follow", seed, n)
			}
		}
	}
	if slices.Equal(schedule(1, 20), schedule(2, 20)) {
		t.Error("two seeds give one schedule")
	}
}

// kindsOf is the kinds of some faults, in order of kind.
func kindsOf(faults []fault) (found []kind) {
	for _, f := range faults {
		found = append(found, f.kind)
	}
	slices.Sort(found)
	return found
}

func TestScheduleDealsTheSimpleKindsFirstAndThenEveryKind(t *testing.T) {
	for seed := range uint64(50) {
		faults := schedule(seed, simple+8*int(kinds))
		if got := kindsOf(faults[:simple]); !slices.Equal(got, deckOf(simple)) {
			t.Fatalf("seed %d: the first cycles have the kinds %v", seed, got)
		}
		for deal := range slices.Chunk(faults[simple:], int(kinds)) {
			if got := kindsOf(deal); !slices.Equal(got, deckOf(int(kinds))) {
				t.Fatalf("seed %d: a deal has the kinds %v", seed, got)
			}
		}
	}
}

func TestScheduleOfSomeKinds(t *testing.T) {
	only := []kind{killNode, loseQuorum, loseQuorum}
	for seed := range uint64(50) {
		long := schedule(seed, 30, only...)
		if !slices.Equal(long[:7], schedule(seed, 7, only...)) {
			t.Fatalf("seed %d: the first faults depend on how many follow", seed)
		}
		for deal := range slices.Chunk(long, len(only)) {
			if got := kindsOf(deal); !slices.Equal(got, only) {
				t.Fatalf("seed %d: a deal has the kinds %v", seed, got)
			}
		}
	}
}

// Over many seeds everything that a fault may be occurs, and nothing that it must not be.
func TestScheduleCoversItsChoices(t *testing.T) {
	occurred := map[string]bool{}
	for seed := range uint64(100) {
		for _, f := range schedule(seed, 20) {
			if f.target < 1 || f.target > members {
				t.Fatalf("there is no target %d", f.target)
			}
			if (f.kind == stopNode || f.kind == stopInCommit) && f.down <= session {
				t.Errorf("stopped for %s: the group would not notice", f.down)
			}
			if f.kind == loseQuorum && f.down <= transaction {
				t.Errorf("no quorum for %s: a commit would only have to wait", f.down)
			}
			if f.wipe && f.kind != killNode || f.leave && f.kind != restartNode {
				t.Errorf("%s makes no sense", f)
			}
			occurred[f.kind.String()+"1"] = occurred[f.kind.String()+"1"] || f.target == 1
			occurred[f.kind.String()+"3"] = occurred[f.kind.String()+"3"] || f.target == 3
			occurred["wiped"] = occurred["wiped"] || f.wipe
			occurred["left"] = occurred["left"] || f.leave
			occurred["back within the session"] = occurred["back within the session"] || f.kind == killNode && f.down < session
			occurred["away for longer"] = occurred["away for longer"] || f.kind == killNode && f.down > session
		}
	}
	if len(occurred) != 2*int(kinds)+4 {
		t.Errorf("only these were looked at: %v", occurred)
	}
	for what, ok := range occurred {
		if !ok {
			t.Errorf("never: %s", what)
		}
	}
}
