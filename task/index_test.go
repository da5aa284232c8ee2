package task

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An index is a map, whatever is added and taken out in whatever order.
func TestIndexIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, want := newIndex(), map[string]*cell{}
		keys := rapid.IntRange(1, 200).Draw(t, "keys")
		for range rapid.IntRange(0, 1_000).Draw(t, "steps") {
			key := fmt.Sprint(rapid.IntRange(0, keys).Draw(t, "key"))
			c := x.get(key)
			switch {
			case c != want[key]:
				t.Fatalf("key %s has %v, want %v", key, c, want[key])
			case c == nil:
				c = &cell{}
				c.Key = key
				x.put(c)
				want[key] = c
			case rapid.Bool().Draw(t, "remove"):
				x.remove(c)
				delete(want, key)
			}
		}
		for key, c := range want {
			if x.get(key) != c {
				t.Fatalf("key %s is lost", key)
			}
		}
		got := map[string]*cell{}
		for c := range x.all() {
			got[c.Key] = c
		}
		if x.n != len(want) || !maps.Equal(got, want) {
			t.Fatalf("%d cells, %d of them listed, want %d", x.n, len(got), len(want))
		}
	})
}

// A look-up among so many keys, against Go's map.
func BenchmarkOverlayIndex(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		x, m, mem := newIndex(), map[string]*cell{}, &memory{}
		mem.drop()
		keys := make([][]byte, n)
		for i := range keys {
			keys[i] = fmt.Appendf(nil, "user-%08d", i)
			c := mem.take(nil, string(keys[i]))
			x.put(c)
			m[c.Key] = c
		}
		order := rand.New(rand.NewPCG(1, 2)).Perm(n)
		asked := make([][]byte, 0, n)
		for _, i := range order {
			asked = append(asked, slices.Clone(keys[i]))
		}
		b.Run(fmt.Sprintf("index/%d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if x.get(text(asked[i%n])) == nil {
					b.Fatal(i)
				}
			}
		})
		b.Run(fmt.Sprintf("map/%d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if m[string(asked[i%n])] == nil {
					b.Fatal(i)
				}
			}
		})
	}
}
