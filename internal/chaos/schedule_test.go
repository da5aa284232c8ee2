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

func TestScheduleDealsEachKindInEveryFiveCycles(t *testing.T) {
	for seed := range uint64(50) {
		faults := schedule(seed, 60)
		for five := range slices.Chunk(faults, int(kinds)) {
			dealt := map[kind]bool{}
			for _, f := range five {
				dealt[f.kind] = true
			}
			if len(dealt) != int(kinds) {
				t.Fatalf("seed %d: five cycles have the kinds %v", seed, dealt)
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
			if f.kind == stopNode && f.down <= session {
				t.Errorf("stopped for %s: the group would not notice", f.down)
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
