package task

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/topology"
)

func cellsOf(keys ...string) (cells []*cell) {
	for _, k := range keys {
		cells = append(cells, &cell{Cell: topology.Cell{Key: k, Mark: markDirty}})
	}
	return cells
}

func keysOf(cells []*cell) (keys []string) {
	for _, c := range cells {
		keys = append(keys, c.Key)
	}
	return keys
}

// Keys of all kinds, fewer and more than the radix sort begins with: random bytes, numbers behind a shared prefix, one
// the prefix of another, zeros at the end.
func TestSortByKey(t *testing.T) {
	kinds := map[string]func(i int, r *rand.Rand) string{
		"numbers":        func(i int, _ *rand.Rand) string { return fmt.Sprintf("user-%d", i) },
		"padded numbers": func(i int, _ *rand.Rand) string { return fmt.Sprintf("the same long prefix %012d", i) },
		"zeros":          func(i int, _ *rand.Rand) string { return "p" + strings.Repeat("\x00", i) },
		"bytes": func(_ int, r *rand.Rand) string {
			b := make([]byte, r.IntN(12))
			for i := range b {
				b[i] = byte(r.UintN(3) * 127)
			}
			return string(b)
		},
	}
	var s sorter
	for name, kind := range kinds {
		for _, n := range []int{0, 1, 2, 100, radixCells - 1, radixCells, 5_000} {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			unique := map[string]bool{}
			for i := range n {
				unique[kind(i, r)] = true
			}
			var keys []string
			for k := range unique {
				keys = append(keys, k)
			}
			got := keysOf(s.byKey(cellsOf(keys...)))
			slices.Sort(keys)
			if !slices.Equal(got, keys) {
				t.Errorf("%s, %d keys: not in order", name, n)
			}
		}
	}
}

// TestOrderIsASortedList inserts, takes out and walks in both directions while insertions happen, over many blocks.
func TestOrderIsASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, model := newOrder(nil), []string{}
		insert := func(k string) {
			if at, found := slices.BinarySearch(model, k); !found {
				model = slices.Insert(model, at, k)
				s.insert(cellsOf(k)[0])
			}
		}
		draw := func() string { return fmt.Sprintf("%04d", rapid.IntRange(0, 9_999).Draw(t, "key")) }
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 0))
		for range rapid.IntRange(0, 2_000).Draw(t, "size") {
			insert(fmt.Sprintf("%04d", r.IntN(10_000)))
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(*rapid.T) { insert(draw()) },
			"keep": func(*rapid.T) {
				var kept []string
				for i, k := range model {
					if i%3 != 0 {
						kept = append(kept, k)
						continue
					}
					block, at := s.seek(k)
					s.blocks[block][at].Mark = 0
				}
				s.keepPinned()
				model = kept
			},
			"walk": func(t *rapid.T) {
				from, to, reverse := draw(), draw(), rapid.Bool().Draw(t, "reverse")
				checkWalk(t, s, model, from, to, reverse, func() { insert(fmt.Sprintf("%04d", r.IntN(10_000))) })
				model = keysOf(slices.Concat(s.blocks...))
			},
			"": func(t *rapid.T) {
				if got := keysOf(slices.Concat(s.blocks...)); !slices.Equal(got, model) {
					t.Fatal("the list is not the model")
				}
				for _, b := range s.blocks {
					if len(b) == 0 || len(b) >= blockCells {
						t.Fatalf("a block of %d", len(b))
					}
				}
			},
		})
	})
}

// checkWalk walks and inserts. What was there before must come, in order and once.
func checkWalk(t *rapid.T, s *order, model []string, from, to string, reverse bool, insert func()) {
	var want []string
	for _, k := range model {
		if k >= from && k <= to {
			want = append(want, k)
		}
	}
	if reverse {
		slices.Reverse(want)
	}
	c, last := s.cursor([]byte(from), []byte(to), reverse), ""
	for n := 0; ; n++ {
		next := c.peek()
		if next == nil {
			break
		}
		if n > 0 && (next.Key == last || (next.Key < last) != reverse) || next.Key < from || next.Key > to {
			t.Fatalf("%q after %q in [%q,%q]", next.Key, last, from, to)
		}
		last = next.Key
		c.pass(next)
		want = slices.DeleteFunc(want, func(k string) bool { return k == last })
		if n%2 == 0 && n < 50 {
			insert()
		}
	}
	if len(want) > 0 {
		t.Fatalf("left out %q", want)
	}
}
