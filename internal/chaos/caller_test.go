package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/chaos/oracle"
	"github.com/millrace-io/millrace/query"
)

// at is a moment of a rolling restart.
func at(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

// asked is a caller that got values, and refusals in between.
func asked(name string, values []int, refused map[int]query.Kind) *caller {
	c := &caller{name: name, kinds: map[query.Kind]int{}}
	for ms := range 10_000 {
		for _, v := range values {
			if v == ms {
				c.take(at(ms), nil)
			}
		}
		if k, ok := refused[ms]; ok {
			c.take(at(ms), query.New(k, "counts", 0))
		}
	}
	return c
}

// What counts is from one value to the next, whether callers were refused or kept waiting meanwhile.
func TestLongestTimeWithoutAValue(t *testing.T) {
	first := asked("first", []int{0, 20, 2_000, 2_020, 6_000}, map[int]query.Kind{30: query.StreamThreadNotRunning, 50: query.StateStoreMigrated, 70: query.StateStoreMigrated})
	second := asked("second", []int{0, 3_000, 3_020}, nil)
	r := &roll{callers: []*caller{first, second}}
	for _, c := range []struct {
		from, to, want int
		said           string
	}{{10, 2_010, 3_000, "second, told nothing"}, {3_100, 9_000, 3_980, "first, told nothing"}, {9_000, 9_100, 0, ""}} {
		got := r.longest(at(c.from), at(c.to))
		if got.length() != time.Duration(c.want)*time.Millisecond || c.want > 0 && got.String() != c.said {
			t.Errorf("from %d to %d it is %s: %s", c.from, c.to, got.length(), got)
		}
	}
	if gaps := first.all(); len(gaps) != 2 || gaps[0].String() != "first, told StreamThreadNotRunning:1,StateStoreMigrated:2" {
		t.Errorf("the gaps are %v", gaps)
	}
	if kinds, questions, untyped := r.kinds(); kinds[query.StateStoreMigrated] != 2 || questions != 11 || untyped != nil {
		t.Errorf("%d questions failed by %v, and by %v", questions, kinds, untyped)
	}
	if last, err := second.lastValue(); !last.Equal(at(3_020)) || err == nil {
		t.Error(last, err)
	}
	second.take(at(9_999), errors.New("something"))
	if _, _, untyped := r.kinds(); untyped == nil || !strings.Contains(untyped.Error(), "neither") {
		t.Error(untyped)
	}
}

func TestWorstRestartIsTheOneThatRefusedLongestBeyondItsAbsence(t *testing.T) {
	long := restart{node: "long", down: 5 * time.Second, longest: gap{from: at(0), to: at(5_400)}}
	brief := restart{node: "brief", down: time.Second, longest: gap{from: at(0), to: at(1_500)}}
	r := &roll{restarts: []restart{long, brief}}
	if w := r.worst(); w.node != "brief" || w.beyond() != 500*time.Millisecond {
		t.Errorf("%+v", w)
	}
	r.judge(oracle.World{Offsets: []oracle.Offset{{Committed: 5, End: 7}, {Committed: 3, End: 3}}},
		[]oracle.Violation{{Rule: oracle.Doubled}, {Rule: oracle.StoreOver}, {Rule: oracle.Lost}, {Rule: oracle.Time}})
	if r.duplicates != 2 || r.losses != 1 || r.lag != 2 {
		t.Errorf("%+v", r)
	}
}
