package query_test

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// other is a node that answers everything with one failure, or as its memory does if there is none.
type other struct {
	*memory
	failure *query.Failure
	asked   int
}

func (o *other) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	o.asked++
	if o.failure != nil {
		return nil, o.failure
	}
	return o.memory.Ask(ctx, q)
}

func (o *other) Partitions(ctx context.Context, store string) (int32, error) {
	if f := o.failure; f != nil && f.Kind == query.StreamThreadNotRunning {
		return 0, f
	}
	return o.memory.Partitions(ctx, store)
}

func (o *other) says(k query.Kind, owner string) {
	o.failure = query.New(k, "counts", 0)
	o.failure.Owner = owner
}

func three() (a, b, c *other, all query.Client) {
	m := filled(1, 3, 9)
	a, b, c = &other{memory: m}, &other{memory: m}, &other{memory: m}
	return a, b, c, query.Nodes(map[string]query.Client{"a:1": a, "b:1": b}, func(endpoint string) (query.Client, error) {
		if endpoint == "c:1" {
			return c, nil
		}
		return nil, errors.New("no such node")
	})
}

func TestNodesFollowTheAdvice(t *testing.T) {
	for _, x := range []struct {
		name    string
		set     func(a, b *other)
		asked   [3]int
		outcome error
	}{
		{"the first answers", func(_, _ *other) {}, [3]int{1, 0, 0}, nil},
		{"to the owner", func(a, _ *other) { a.says(query.StateStoreMigrated, "b:1") }, [3]int{1, 1, 0}, nil},
		{"to an owner that is dialled", func(a, b *other) { a.says(query.InvalidStateStorePartition, "c:1") }, [3]int{1, 0, 1}, nil},
		{"elsewhere", func(a, _ *other) { a.says(query.StreamThreadNotRunning, "") }, [3]int{1, 1, 0}, nil},
		{"one that does not know yet", func(a, _ *other) { a.says(query.StreamThreadRebalancing, "") }, [3]int{1, 1, 0}, nil},
		{"the owner is stopping", func(a, b *other) { a.says(query.StateStoreMigrated, "b:1"); b.says(query.StreamThreadNotRunning, "") },
			[3]int{1, 1, 0}, query.ErrStateStoreMigrated},
		{"each names the other", func(a, b *other) { a.says(query.StateStoreMigrated, "b:1"); b.says(query.StateStoreMigrated, "a:1") },
			[3]int{1, 1, 0}, query.ErrStateStoreMigrated},
		{"a mistake is one everywhere", func(a, _ *other) { a.says(query.StateStoreTypeMismatch, "") }, [3]int{1, 0, 0}, query.ErrStateStoreTypeMismatch},
		{"here means here", func(a, _ *other) { a.says(query.Overloaded, "") }, [3]int{1, 0, 0}, query.ErrOverloaded},
	} {
		a, b, c, all := three()
		x.set(a, b)
		_, found, err := query.Get(t.Context(), all, counts, "w00")
		if !errors.Is(err, x.outcome) || (x.outcome == nil) != (err == nil && found) {
			t.Errorf("%s: %v %v", x.name, found, err)
		}
		if got := [3]int{a.asked, b.asked, c.asked}; got != x.asked {
			t.Errorf("%s: asked %v, want %v", x.name, got, x.asked)
		}
	}
}

func TestNodesRememberTheOwner(t *testing.T) {
	a, b, _, all := three()
	a.says(query.StateStoreMigrated, "b:1")
	for range 5 {
		if _, _, err := query.Get(t.Context(), all, counts, "w00"); err != nil {
			t.Fatal(err)
		}
	}
	if a.asked != 1 || b.asked != 5 {
		t.Errorf("asked %d and %d times", a.asked, b.asked)
	}
}

// A lease is of one node: a question that is bound to it does not wander.
func TestNodesDoNotMoveAView(t *testing.T) {
	a, b, _, all := three()
	v, err := query.Open(t.Context(), all, counts)
	if err != nil {
		t.Fatal(err)
	}
	a.says(query.StateStoreMigrated, "b:1")
	if _, _, err := v.Get(t.Context(), "w00"); !errors.Is(err, query.ErrStateStoreMigrated) || b.asked != 0 {
		t.Fatalf("%v, b was asked %d times", err, b.asked)
	}
	if v, err = query.Open(t.Context(), all, counts); err != nil {
		t.Fatal(err)
	}
	if _, found, err := v.Get(t.Context(), "w00"); !found || err != nil {
		t.Fatal(found, err)
	}
}

func TestNoNodes(t *testing.T) {
	if _, _, err := query.Get(t.Context(), query.Nodes(nil, nil), counts, "w00"); !errors.Is(err, query.ErrMetadataUnavailable) {
		t.Fatal(err)
	}
}
