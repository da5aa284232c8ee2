package task

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/record"
)

// colliding are pairs of keys that the index cannot tell apart: some share 32 bits of their hash, and some the whole of it.
var colliding = sync.OnceValue(func() (keys []string) {
	var c cold
	first := map[uint32]string{}
	for i := 0; len(keys) < 8; i++ {
		k := fmt.Sprintf("c%d", i)
		h := c.of(hashed(bytesOf(k)), 0)
		if other, ok := first[h]; ok {
			keys = append(keys, other, k)
		}
		first[h] = k
	}
	return keys
})

// coldKeys are short and long ones, those that collide, and those of windows.
var coldKeys = sync.OnceValue(func() []string {
	keys := append([]string{"", "a", "\x00", strings.Repeat("k", 70), strings.Repeat("K", 5_000)}, colliding()...)
	for i := range 8 {
		keys = append(keys, fmt.Sprint(i), string(record.AppendWindowSuffix([]byte("w"), int64(i)*60_000, 0)))
	}
	return keys
})

// What is drawn of a cold memory: limits around one segment, a few, and more than the largest; values from nothing to more than
// any segment; a store whose number does not fit.
var (
	coldLimits = []int64{-1, 0, 100, 434, 436, 900, 2_000, 20_000, 3 << 20}
	coldSizes  = []int{0, 1, 8, 40, 50, 51, 300, largestSegment / largestShare, largestSegment, 1<<16 + 1}
	coldStores = []int{0, 1, 2, entryAsked - 1, entryAsked, entryAsked + 1}
)

type coldKey struct {
	store int
	key   string
}

type coldRow struct {
	value     string
	timestamp int64
}

// coldModel is a cold memory beside a plain map that forgets nothing.
type coldModel struct {
	t     *rapid.T
	cold  cold
	rows  map[coldKey]coldRow
	clock int64
	// asks says that each key is asked for when it was put: it stays longer then.
	asks bool
}

func (m *coldModel) any() coldKey {
	return coldKey{rapid.SampledFrom(coldStores).Draw(m.t, "store"), rapid.SampledFrom(coldKeys()).Draw(m.t, "key")}
}

func (m *coldModel) get(at coldKey) (row coldRow, ok bool) {
	value, timestamp, ok := m.cold.get(hashed(bytesOf(at.key)), at.store, bytesOf(at.key))
	return coldRow{string(value), timestamp}, ok
}

// put is there afterwards if there may be any.
func (m *coldModel) put(at coldKey, size int) {
	m.clock++
	value := string(binary.LittleEndian.AppendUint64(nil, uint64(m.clock)))
	row := coldRow{strings.Repeat(value, size/8+1)[:size], -m.clock}
	m.cold.put(hashed(bytesOf(at.key)), at.store, at.key, []byte(row.value), row.timestamp)
	m.rows[at] = row
	if !m.asks {
		return
	}
	n := entryHead + len(at.key) + size
	kept := n <= m.cold.size/largestShare && at.store < entryAsked && m.cold.limit >= int64(m.cold.size)+indexBytes
	if got, ok := m.get(at); ok != kept || ok && got != row {
		m.t.Fatalf("%v of %d bytes: %v, want %v: %v", at, size, ok, kept, got)
	}
}

func (m *coldModel) drop(at coldKey) {
	_, kept := m.get(at)
	n := len(m.cold.index)
	m.cold.drop(hashed(bytesOf(at.key)), at.store, at.key)
	delete(m.rows, at)
	if gone := n - len(m.cold.index); (gone != 0) != kept {
		m.t.Fatalf("%v was there: %v; %d are gone", at, kept, gone)
	}
}

func (m *coldModel) ask(at coldKey) {
	if got, ok := m.get(at); ok && got != m.rows[at] {
		m.t.Fatalf("%v: got %v, want %v", at, got, m.rows[at])
	}
}

// Put, Again, Grow and Flood put one key, one twice with values of one size, one whose values grow, and many.
func (m *coldModel) Put(t *rapid.T) { m.put(m.any(), rapid.SampledFrom(coldSizes).Draw(t, "size")) }

func (m *coldModel) Again(t *rapid.T) {
	at, size := m.any(), rapid.IntRange(0, 8).Draw(t, "size")
	m.put(at, size)
	m.put(at, size)
	m.ask(at)
}

func (m *coldModel) Grow(t *rapid.T) {
	at, size := m.any(), rapid.IntRange(0, 30).Draw(t, "size")
	for i := range rapid.IntRange(1, 100).Draw(t, "times") {
		m.put(at, size+i)
	}
}

func (m *coldModel) Flood(t *rapid.T) {
	store, size := rapid.IntRange(0, 1).Draw(t, "store"), rapid.IntRange(0, 50).Draw(t, "size")
	for i := range rapid.IntRange(1, 300).Draw(t, "keys") {
		m.put(coldKey{store, fmt.Sprint("flood-", i)}, size)
	}
}

// Collide has two keys with one place in the index.
func (m *coldModel) Collide(t *rapid.T) {
	i, size := rapid.IntRange(0, len(colliding())/2-1).Draw(t, "pair"), rapid.IntRange(0, 8).Draw(t, "size")
	one, other := coldKey{1, colliding()[2*i]}, coldKey{1, colliding()[2*i+1]}
	m.put(one, size)
	m.ask(other)
	m.put(other, size)
	m.ask(one)
	m.drop(one)
	m.ask(other)
}

func (m *coldModel) Drop(*rapid.T) {
	at := m.any()
	m.drop(at)
	if got, ok := m.get(at); ok {
		m.t.Fatalf("%v has %v, and was dropped", at, got)
	}
}

func (m *coldModel) Ask(*rapid.T) { m.ask(m.any()) }

func (m *coldModel) Repack(*rapid.T) {
	if len(m.cold.segments) > 0 {
		m.cold.repack()
	}
}

// Cold values against a plain map: what is given is what was put last, what was just put is there if there may be any, and the
// segments and the index are whole after every step.
func TestColdIsAMapThatForgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &coldModel{t: t, cold: newCold(rapid.SampledFrom(coldLimits).Draw(t, "limit")), rows: map[coldKey]coldRow{}, asks: rapid.Bool().Draw(t, "asks")}
		t.Repeat(map[string]func(*rapid.T){
			"Put": m.Put, "Again": m.Again, "Grow": m.Grow, "Flood": m.Flood, "Collide": m.Collide, "Drop": m.Drop, "Ask": m.Ask, "Repack": m.Repack,
			"": func(t *rapid.T) {
				if err := m.cold.whole(); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// whole finds what is wrong with the segments and the index.
func (c *cold) whole() error {
	if c.bytes() > max(0, c.limit) {
		return fmt.Errorf("%d bytes, with a limit of %d", c.bytes(), c.limit)
	}
	places := map[uint32]bool{}
	for i, s := range c.segments {
		if cap(s) != c.size {
			return fmt.Errorf("segment %d has room for %d, not %d", i, cap(s), c.size)
		}
		for at := 0; at < len(s); at += entry(s[at:]).size() {
			if len(s)-at < entryHead || entry(s[at:]).size() > len(s)-at {
				return fmt.Errorf("the entry at %d of segment %d ends behind it", at, i)
			}
			places[uint32(i*c.size+at)] = true
		}
	}
	live := int64(0)
	for h, place := range c.index {
		live += int64(c.at(place).size())
		if e := c.at(place); !places[place] || c.of(hashed(e.key()), e.store()) != h {
			return fmt.Errorf("the index leads to %d, where that key is not", place)
		}
	}
	if live != c.live {
		return fmt.Errorf("%d bytes can be asked for, summed up %d", c.live, live)
	}
	return nil
}

// A memory that was full of one kind of values has as many of another kind as it had from the start.
func TestColdMakesWayForOtherValues(t *testing.T) {
	const limit, keys = 4 << 20, 200_000
	fill := func(c *cold) (kept int) {
		for i := range keys {
			k := fmt.Sprint("small", i)
			c.put(hashed(bytesOf(k)), 0, k, []byte("12345678"), 1)
		}
		for i := range keys {
			k := fmt.Sprint("small", i)
			if _, _, ok := c.get(hashed(bytesOf(k)), 0, bytesOf(k)); ok {
				kept++
			}
		}
		return kept
	}
	fresh := newCold(limit)
	want := fill(&fresh)
	large, grown := newCold(limit), newCold(limit)
	for i := range 5_000 {
		k := fmt.Sprint("large", i)
		large.put(hashed(bytesOf(k)), 0, k, make([]byte, 4_000), 1)
		grown.put(hashed([]byte("list")), 0, "list", make([]byte, i%4_000), 1)
	}
	for name, c := range map[string]*cold{"large": &large, "grown": &grown} {
		if kept := fill(c); kept < want*5/10 {
			t.Errorf("after %s values %d small ones are kept, and %d in a memory that had none", name, kept, want)
		}
		if err := c.whole(); err != nil {
			t.Error(err)
		}
	}
}

// A key whose value grows with each put leaves its old places behind: they are used again before the values of others are
// forgotten.
func TestColdUsesPlacesThatWereLeft(t *testing.T) {
	c := newCold(64 << 10)
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint("rare", i))
		c.put(hashed(bytesOf(keys[i])), 0, keys[i], []byte("12345678"), 1)
	}
	for i := range 10_000 {
		c.put(hashed([]byte("list")), 0, "list", make([]byte, i%100), 1)
	}
	gone := slices.DeleteFunc(keys, func(k string) bool { _, _, ok := c.get(hashed(bytesOf(k)), 0, bytesOf(k)); return ok })
	if len(gone) > 0 {
		t.Errorf("%d of 100 are forgotten for old values of another key, with %d of %d bytes in use", len(gone), c.bytes(), c.limit)
	}
}
