package topology_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/millrace-io/millrace/record/codec"
	. "github.com/millrace-io/millrace/topology"
)

var (
	one = NewRepartition("one", codec.String, codec.String)
	two = NewRepartition("two", codec.String, codec.String)
)

func sink(s Stream[string, string]) { To(s, out) }

func TestRepartitionCounts(t *testing.T) {
	for _, c := range []struct {
		name string
		wire func(*Builder)
		want map[string]int32
	}{
		{"as many as upstream", func(b *Builder) { sink(Through(From(b, in), one)) }, map[string]int32{"app-one-repartition": 3}},
		{"the most of several", func(b *Builder) { sink(Through(Merge(From(b, in), From(b, second)), one)) }, map[string]int32{"app-one-repartition": 5}},
		{"the most of several writers", func(b *Builder) {
			ToRepartition(From(b, second), one)
			ToRepartition(From(b, in), one)
			sink(FromRepartition(b, one))
		}, map[string]int32{"app-one-repartition": 5}},
		{"its own", func(b *Builder) { sink(Through(From(b, in), one.WithPartitions(7))) }, map[string]int32{"app-one-repartition": 7}},
		{"through another", func(b *Builder) { sink(Through(Through(From(b, in), one), two)) },
			map[string]int32{"app-one-repartition": 3, "app-two-repartition": 3}},
		{"through another with its own", func(b *Builder) { sink(Through(Through(From(b, in), one.WithPartitions(2)), two)) },
			map[string]int32{"app-one-repartition": 2, "app-two-repartition": 2}},
		{"read before it is written", func(b *Builder) {
			sink(Through(FromRepartition(b, one), two))
			ToRepartition(From(b, second), one)
		}, map[string]int32{"app-one-repartition": 5, "app-two-repartition": 5}},
		{"it meets a topic in a store", func(b *Builder) {
			Process(Merge(Through(From(b, in), one), From(b, second)), "p", pass, strs)
		}, map[string]int32{"app-one-repartition": 5}},
		{"what follows it follows the change", func(b *Builder) {
			s := Merge(Through(From(b, in), one), From(b, second))
			Process(s, "p", pass, strs)
			sink(Through(s, two))
		}, map[string]int32{"app-one-repartition": 5, "app-two-repartition": 5}},
		{"a topic that cannot change decides, be it the smaller", func(b *Builder) {
			Process(Merge(From(b, in), Through(From(b, second), one)), "p", pass, strs)
		}, map[string]int32{"app-one-repartition": 3}},
		{"it meets another of them in a store", func(b *Builder) {
			Process(Merge(Through(From(b, in), one), Through(From(b, second), two)), "p", pass, strs)
		}, map[string]int32{"app-one-repartition": 5, "app-two-repartition": 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBuilder()
			c.wire(b)
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			bound := top.Bind("app")
			counts := map[string]int32{"in": 3, "second": 5, "out": 1}
			got, err := bound.RepartitionCounts(counts)
			if d := cmp.Diff(c.want, got); d != "" || err != nil {
				t.Fatal(d, err)
			}
			for topic, n := range got {
				counts[topic] = n
			}
			if err := bound.CheckPartitions(counts); err != nil {
				t.Errorf("what was derived does not pass the check: %v", err)
			}
		})
	}
}

func TestUnknownCounts(t *testing.T) {
	b := NewBuilder()
	sink(Through(From(b, in), one))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	_, err = top.Bind("app").RepartitionCounts(map[string]int32{})
	if all := mistakes(err); len(all) == 0 || all[0].Reason != UnknownPartitions || !strings.Contains(err.Error(), `"in"`) {
		t.Fatalf("%v", err)
	}
}

func TestCheckPartitions(t *testing.T) {
	shared := func(b *Builder) {
		Process(From(b, in), "left", pass, strs)
		Process(From(b, second), "right", pass, strs)
	}
	for _, c := range []struct {
		name string
		wire func(*Builder)
		ok   bool
	}{
		{"without a store any counts may meet", func(b *Builder) { sink(Merge(From(b, in), From(b, second))) }, true},
		{"in a store they must be equal", shared, false},
		{"merged into one store", func(b *Builder) { Count(Merge(From(b, in), From(b, second)), counts) }, false},
		// The store has as many partitions as its sub-topology has tasks, and a query finds a key's partition by that
		// count; so a source that does not reach the store must have it too.
		{"beside a store", func(b *Builder) {
			s := From(b, in)
			Count(s, counts)
			sink(Merge(s, From(b, second)))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBuilder()
			c.wire(b)
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			err = top.Bind("app").CheckPartitions(map[string]int32{"in": 3, "second": 5, "out": 1})
			bad := slices.ContainsFunc(mistakes(err), func(e *BuildError) bool { return e.Reason == NotCoPartitioned && e.Node != "" })
			if bad == c.ok || (err == nil) != c.ok {
				t.Errorf("want ok = %v, got %v", c.ok, err)
			}
			if err := top.Bind("app").CheckPartitions(map[string]int32{"in": 4, "second": 4, "out": 1}); err != nil {
				t.Errorf("equal counts: %v", err)
			}
		})
	}
}
