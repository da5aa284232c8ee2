package query_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var counts = topology.NewKeyValueStore("counts", codec.String, codec.Int64)

// memory is a client over maps. It answers by the messages alone, a few entries per page. The mutex protects all of it:
// partitions are asked at the same time.
type memory struct {
	mu sync.Mutex

	parts  []map[string][]byte
	leases []uint64
	page   int
	// before is called with each question before it is answered; its failure is the answer.
	before func(q query.Question) *query.Failure
	asked  []query.Question
}

func newMemory(partitions, page int) *memory {
	m := &memory{page: page}
	for p := range partitions {
		m.parts, m.leases = append(m.parts, map[string][]byte{}), append(m.leases, uint64(10+p))
	}
	return m
}

func (m *memory) put(key string, value int64) {
	b, _ := codec.Int64.Encode(nil, value)
	m.parts[record.Partition([]byte(key), int32(len(m.parts)))][key] = b
}

func (m *memory) Partitions(context.Context, string) (int32, error) {
	return int32(len(m.parts)), nil
}

func (m *memory) Ask(_ context.Context, q query.Question) (*querypb.Reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, q)
	p := q.GetAbout().GetPartition()
	if m.before != nil {
		if f := m.before(q); f != nil {
			return nil, f
		}
	}
	if e := q.GetAbout().GetEpoch(); e != 0 && e != m.leases[p] {
		return nil, query.New(query.StateStoreMigrated, "counts", p)
	}
	r := &querypb.Reply{Store: "counts", Partition: p, Epoch: m.leases[p],
		Position: []*querypb.Position{{Topic: "lines", Partition: p, Next: 100 + int64(p)}}}
	switch q := q.(type) {
	case *querypb.Open:
		r.Answer = &querypb.Reply_Lease{Lease: &querypb.Lease{}}
	case *querypb.Get:
		v, ok := m.parts[p][string(q.Key)]
		r.Answer = &querypb.Reply_Value{Value: &querypb.Value{Present: ok, Value: v}}
	case *querypb.GetMany:
		values := &querypb.Values{}
		for _, k := range q.Keys[:min(len(q.Keys), max(m.page, 1))] {
			v, ok := m.parts[p][string(k)]
			values.Values = append(values.Values, &querypb.Value{Present: ok, Value: v, Timestamp: 7})
		}
		r.Answer = &querypb.Reply_Values{Values: values}
	case *querypb.Count:
		r.Answer = &querypb.Reply_Count{Count: &querypb.CountReply{Entries: int64(len(m.parts[p]))}}
	case *querypb.Range:
		r.Answer = &querypb.Reply_Page{Page: m.scan(m.parts[p], q)}
	}
	return r, nil
}

func (m *memory) scan(part map[string][]byte, q *querypb.Range) *querypb.Page {
	page := &querypb.Page{}
	var keys [][]byte
	for k := range part {
		key := []byte(k)
		if (q.From == nil || bytes.Compare(key, q.From) >= 0) && (q.To == nil || bytes.Compare(key, q.To) < 0 || q.ToInclusive && bytes.Equal(key, q.To)) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b []byte) int {
		if q.Reverse {
			a, b = b, a
		}
		return bytes.Compare(a, b)
	})
	for _, k := range keys {
		c := bytes.Compare(k, q.Resume)
		if q.Resume != nil && (c == 0 || (c < 0) != q.Reverse) {
			continue
		}
		if len(page.Entries) == m.page {
			page.More = true
			break
		}
		page.Entries = append(page.Entries, &querypb.Entry{Key: k, Value: part[string(k)]})
	}
	return page
}

func words(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("w%02d", i))
	}
	return all
}

func filled(partitions, page, n int) *memory {
	m := newMemory(partitions, page)
	for i, w := range words(n) {
		m.put(w, int64(i))
	}
	return m
}

func TestGetTellsAbsentFromZero(t *testing.T) {
	m := filled(3, 2, 1)
	for _, c := range []struct {
		key   string
		found bool
	}{{"w00", true}, {"nothing", false}, {"", false}} {
		v, found, err := query.Get(t.Context(), m, counts, c.key)
		if v != 0 || found != c.found || err != nil {
			t.Errorf("%q: %d %v %v", c.key, v, found, err)
		}
	}
	for _, q := range m.asked {
		g := q.(*querypb.Get)
		if g.Key == nil || g.About.Epoch != 0 || g.About.Held || g.About.KeyCodec == "" || g.About.Kind != "key-value" {
			t.Errorf("question %v", g)
		}
	}
}

// Every page size, direction and number of partitions delivers each key once.
func TestAllDeliversEachKeyOnce(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		for page := 1; page <= 12; page++ {
			var forward []string
			for _, opts := range [][]query.Option{nil, {query.Reverse()}} {
				m := filled(partitions, page, 11)
				var got []string
				for e, err := range query.All(t.Context(), m, counts, opts...) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, e.Key)
					if want := record.Partition([]byte(e.Key), int32(partitions)); e.Partition != want {
						t.Errorf("%s came from %d", e.Key, e.Partition)
					}
				}
				if len(opts) == 0 {
					forward = slices.Clone(got)
				} else if slices.Reverse(got); !slices.Equal(forward, got) {
					t.Fatalf("backwards is not the opposite of forwards: %q, %q", got, forward)
				}
				slices.Sort(got)
				if diff := cmp.Diff(words(11), got); diff != "" {
					t.Fatalf("page %d:\n%s", page, diff)
				}
			}
		}
	}
}

func TestRangeIncludesBothEnds(t *testing.T) {
	var got []string
	for e, err := range query.Range(t.Context(), filled(1, 2, 9), counts, "w03", "w06") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Key)
	}
	if diff := cmp.Diff([]string{"w03", "w04", "w05", "w06"}, got); diff != "" {
		t.Fatal(diff)
	}
}

// A store that is opened anew between two pages must not be read on: it may be another incarnation's state.
func TestScanIsCutAtANewLease(t *testing.T) {
	m := filled(1, 2, 9)
	m.before = func(query.Question) *query.Failure {
		if len(m.asked) == 3 {
			m.leases[0]++
		}
		return nil
	}
	var got []string
	var last error
	for e, err := range query.All(t.Context(), m, counts) {
		if err != nil {
			last = err
			continue
		}
		got = append(got, e.Key)
	}
	var f *query.Failure
	if !errors.As(last, &f) || f.Kind != query.StateStoreMigrated || string(f.LastKey) != "w03" || len(got) != 4 {
		t.Fatalf("%v after %v, last key %q", last, got, f.LastKey)
	}
	if about := m.asked[2].GetAbout(); !about.Held || about.Epoch != 10 {
		t.Errorf("the third page was not bound: %v", about)
	}
}

// A failure object that the client shares must not be written to.
func TestScanDoesNotChangeTheClientsFailure(t *testing.T) {
	m := filled(1, 2, 9)
	shared := query.New(query.Overloaded, "counts", 0)
	m.before = func(query.Question) *query.Failure {
		if len(m.asked) > 1 {
			return shared
		}
		return nil
	}
	for _, err := range query.All(t.Context(), m, counts) {
		var f *query.Failure
		if errors.As(err, &f) && string(f.LastKey) != "w01" {
			t.Errorf("last key %q", f.LastKey)
		}
	}
	if shared.LastKey != nil {
		t.Error("the client's failure was changed")
	}
}

func TestScanStopsWhenTheCallerDoes(t *testing.T) {
	m := filled(2, 1, 9)
	for range query.All(t.Context(), m, counts) {
		break
	}
	if len(m.asked) != 1 {
		t.Fatalf("%d questions after one entry", len(m.asked))
	}
}

func TestPageThatPromisesMoreAndBringsNothingEndsTheScan(t *testing.T) {
	m := filled(1, 0, 3)
	n := 0
	for _, err := range query.All(t.Context(), m, counts) {
		n++
		if !errors.Is(err, query.ErrStoreFailure) {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Fatalf("%d yields", n)
	}
}

func TestViewIsBoundToItsLeases(t *testing.T) {
	m := filled(2, 2, 6)
	v, err := query.Open(t.Context(), m, counts)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := v.Count(t.Context()); n != 6 || err != nil {
		t.Fatal(n, err)
	}
	if v.Epoch(0) != 10 || v.Epoch(1) != 11 || v.Epoch(2) != 0 {
		t.Fatal("epochs")
	}
	m.leases[0], m.leases[1] = 20, 21
	if _, _, err := v.Get(t.Context(), "w00"); !errors.Is(err, query.ErrStateStoreMigrated) {
		t.Fatalf("a View read another lease: %v", err)
	}
	if _, found, err := query.Get(t.Context(), m, counts, "w00"); !found || err != nil {
		t.Fatalf("a free function is not bound: %v %v", found, err)
	}
}

func TestOpenNeedsOnePartition(t *testing.T) {
	refuse := func(kinds ...query.Kind) *memory {
		m := filled(2, 2, 6)
		m.before = func(q query.Question) *query.Failure {
			if k := kinds[q.GetAbout().GetPartition()]; k != 0 {
				return query.New(k, "counts", q.GetAbout().GetPartition())
			}
			return nil
		}
		return m
	}
	for _, c := range []struct {
		name string
		m    *memory
		want error
	}{
		{"one elsewhere", refuse(0, query.InvalidStateStorePartition), nil},
		{"none, the first decides", refuse(query.StreamThreadRebalancing, query.InvalidStateStorePartition), query.ErrStreamThreadRebalancing},
		{"a mistake of the caller", refuse(0, query.StateStoreTypeMismatch), query.ErrStateStoreTypeMismatch},
		{"stopped", refuse(query.StreamThreadNotRunning, query.StreamThreadNotRunning), query.ErrStreamThreadNotRunning},
	} {
		v, err := query.Open(t.Context(), c.m, counts)
		if !errors.Is(err, c.want) || (v == nil) != (c.want != nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A codec error is the caller's to see as a failure like any other.
func TestForeignBytesAreATypeMismatch(t *testing.T) {
	m := newMemory(1, 2)
	m.parts[0]["w"] = []byte("five!")
	_, found, err := query.Get(t.Context(), m, counts, "w")
	var ce *codec.Error
	if found || !errors.Is(err, query.ErrStateStoreTypeMismatch) || !errors.As(err, &ce) {
		t.Fatalf("%v %v", found, err)
	}
	for _, err := range query.All(t.Context(), m, counts) {
		if !errors.Is(err, query.ErrStateStoreTypeMismatch) {
			t.Fatal(err)
		}
	}
}
