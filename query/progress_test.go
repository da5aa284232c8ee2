package query_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
)

func TestRestoringTellsHowFarItIs(t *testing.T) {
	f := query.New(query.StreamThreadRebalancing, "counts", 2)
	f.Progress = &lifecycle.Progress{Restored: 1_220_000, Remaining: 780_000}
	for _, c := range []struct {
		left time.Duration
		want string
	}{
		{3 * time.Second, "61 % of 2,000,000 records, about 3 s: ask again here (in 100ms)"},
		{0, "61 % of 2,000,000 records: ask again here (in 100ms)"},
		{150 * time.Second, "61 % of 2,000,000 records, about 3 min: ask again here (in 100ms)"},
		{3 * time.Hour, "61 % of 2,000,000 records, about 3 h: ask again here (in 100ms)"},
		{time.Millisecond, "61 % of 2,000,000 records, about 1 s: ask again here (in 100ms)"},
	} {
		f.Left = c.left
		if got := f.Error(); got != `query: StreamThreadRebalancing: store "counts" partition 2 is being restored on this node: `+c.want {
			t.Errorf("%v: %s", c.left, got)
		}
	}
}

func TestEstimate(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		p    lifecycle.Progress
		want time.Duration
	}{
		{lifecycle.Progress{Restored: 100, Remaining: 50, Started: now.Add(-2 * time.Second)}, time.Second},
		{lifecycle.Progress{Restored: 0, Remaining: 50, Started: now.Add(-2 * time.Second)}, 0},
		{lifecycle.Progress{Restored: 100, Remaining: 50}, 0},
		{lifecycle.Progress{Restored: 100, Remaining: 50, Started: now.Add(time.Second)}, 0},
		{lifecycle.Progress{Restored: 1, Remaining: 1 << 62, Started: now.Add(-2 * time.Second)}, 7 * 24 * time.Hour},
	} {
		if got := query.Estimate(c.p, now); got != c.want {
			t.Errorf("%+v: %v, want %v", c.p, got, c.want)
		}
	}
	for p, want := range map[lifecycle.Progress]string{
		{Restored: 0, Remaining: 0}:                 "100 % of 0 records",
		{Restored: 1999, Remaining: 1}:              "99 % of 2,000 records",
		{Restored: 1 << 61, Remaining: 1<<61 - 100}: "50 % of 4,611,686,018,427,387,804 records",
	} {
		if got := query.Progressed(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
