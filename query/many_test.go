package query_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

var ctx = context.Background()

// published is a memory that lets scans watch it, as a client of the same process does.
type published struct {
	*memory
	count atomic.Uint64
}

func (p *published) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	query.WatchOf(ctx).Arm(&p.count)
	return p.memory.Ask(ctx, q)
}

func TestGetManyAsksEachPartitionOnce(t *testing.T) {
	m := filled(4, 100, 20)
	keys := append(words(20), "nothing", "w00", "")
	results, err := query.GetMany(t.Context(), m, counts, keys)
	if err != nil || len(results) != len(keys) {
		t.Fatal(len(results), err)
	}
	for i, r := range results {
		found := i < 20 || i == 21
		if r.Found != found || r.Err != nil || r.Partition != record.Partition([]byte(keys[i]), 4) || (found && (r.Value != int64(i%21) || r.Timestamp != 7)) {
			t.Errorf("%q: %+v", keys[i], r)
		}
	}
	asked := map[int32]int{}
	for _, q := range m.asked {
		asked[q.(*querypb.GetMany).About.GetPartition()]++
	}
	for p, n := range asked {
		if n != 1 {
			t.Errorf("%d messages to partition %d", n, p)
		}
	}
	if results, err := query.GetMany(t.Context(), m, counts, nil); len(results) != 0 || err != nil {
		t.Error(results, err)
	}
}

// One partition that fails takes its keys with it and no others.
func TestGetManyServesHealthyPartitions(t *testing.T) {
	m := filled(2, 100, 20)
	m.before = func(q query.Question) *query.Failure {
		if p := q.GetAbout().GetPartition(); p == 1 {
			return query.New(query.StreamThreadRebalancing, "counts", p)
		}
		return nil
	}
	results, err := query.GetMany(t.Context(), m, counts, words(20))
	if !errors.Is(err, query.ErrStreamThreadRebalancing) {
		t.Fatal(err)
	}
	served := 0
	for _, r := range results {
		if (r.Partition == 1) != (r.Err != nil) || (r.Partition == 0) != r.Found {
			t.Errorf("%+v", r)
		}
		if r.Found {
			served++
		}
	}
	if fs := query.Failures(results); served == 0 || served == 20 || len(fs) != 1 {
		t.Fatalf("%d served, %v", served, fs)
	}
}

// An answer may hold the first values only; the rest is asked for under the same lease.
func TestGetManyAsksForTheRest(t *testing.T) {
	m := filled(1, 3, 10)
	results, err := query.GetMany(t.Context(), m, counts, words(10))
	if err != nil || len(m.asked) != 4 {
		t.Fatal(len(m.asked), err)
	}
	for i, r := range results {
		if !r.Found || r.Value != int64(i) {
			t.Errorf("%d: %+v", i, r)
		}
	}
	for _, q := range m.asked[1:] {
		if about := q.GetAbout(); about.Epoch != 10 || !about.Held {
			t.Errorf("not bound: %v", about)
		}
	}
}

func TestViewReadsEverything(t *testing.T) {
	m := filled(2, 3, 9)
	v, err := query.Open(t.Context(), m, counts)
	if err != nil {
		t.Fatal(err)
	}
	results, err := v.GetMany(t.Context(), words(3))
	if err != nil || len(results) != 3 || !results[2].Found {
		t.Error(results, err)
	}
	var n [4]int
	for _, err := range v.Range(t.Context(), "w03", "w06") {
		if err == nil {
			n[0]++
		}
	}
	for _, err := range v.ReverseRange(t.Context(), "w03", "w06") {
		if err == nil {
			n[1]++
		}
	}
	for _, err := range v.Prefix(t.Context(), []byte("w0")) {
		if err == nil {
			n[2]++
		}
	}
	for _, err := range v.All(t.Context()) {
		if err == nil {
			n[3]++
		}
	}
	if n != [4]int{4, 4, 9, 9} {
		t.Error(n)
	}
	it := v.Iterate(t.Context(), query.Everything[string](), query.Reverse())
	if key, err := it.PeekNextKey(); err != nil || key == "" {
		t.Error(key, err)
	}
	for _, q := range m.asked[2:] {
		if q.GetAbout().Epoch == 0 {
			t.Errorf("not bound: %v", q)
		}
	}
}

// AtLeast goes to the partition that it is about, and a Tracker has what the replies say.
func TestPositionsTravel(t *testing.T) {
	m := filled(2, 3, 9)
	at := record.Position{{Topic: "lines", Partition: 0}: 5, {Topic: "lines", Partition: 1}: 6}
	var tracker query.Tracker
	if _, err := query.Count(t.Context(), m, counts, query.AtLeast(at), query.Track(&tracker)); err != nil {
		t.Fatal(err)
	}
	for _, q := range m.asked {
		about := q.GetAbout()
		if len(about.AtLeast) != 1 || about.AtLeast[0].Partition != about.GetPartition() || about.AtLeast[0].Next != 5+int64(about.GetPartition()) {
			t.Errorf("%v", about)
		}
	}
	if got := tracker.Position(); len(got) != 2 || got[record.TopicPartition{Topic: "lines", Partition: 1}] != 101 {
		t.Errorf("%v", got)
	}
}
