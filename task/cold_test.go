package task

import (
	"fmt"
	"testing"
)

// What was dropped does not come back when its segment is packed again, the first one of all least.
func TestColdDropsForGood(t *testing.T) {
	c := newCold(2000)
	put := func(k string) { c.put(hashed([]byte(k)), 0, k, []byte("12345678"), 1) }
	put("first")
	c.get(hashed([]byte("first")), 0, []byte("first"))
	c.drop(hashed([]byte("first")), 0, "first")
	for i := range 200 {
		put(fmt.Sprint(i))
		if value, _, ok := c.get(hashed([]byte("first")), 0, []byte("first")); ok {
			t.Fatalf("%q is back after %d others", value, i)
		}
	}
}

// As many as fit are kept, and then the newest.
func TestColdForgetsTheOldest(t *testing.T) {
	const keys = 100_000
	c := newCold(1 << 20)
	for i := range keys {
		k := fmt.Sprintf("key-%06d", i)
		c.put(hashed([]byte(k)), 0, k, []byte("12345678"), 1)
	}
	kept := 0
	for i := range keys {
		k := fmt.Appendf(nil, "key-%06d", i)
		if _, _, ok := c.get(hashed(k), 0, k); ok {
			kept++
		} else if kept > 0 {
			t.Fatalf("key %d is forgotten, and an older one is not", i)
		}
	}
	if least := (1 << 20) / 8 * coldShare / 52; kept < least { // 34 bytes, and 16 of the index
		t.Errorf("%d of %d are kept, want at least %d", kept, keys, least)
	}
}

// A cold value is asked for and comes back, among a million.
func BenchmarkCold(b *testing.B) {
	const keys = 1_000_000
	c := newCold(128 << 20)
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("user-%08d", i)
		c.put(hashed(bytesOf(names[i])), 0, names[i], []byte("12345678"), 1)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := names[i*7919%keys]
		c.get(hashed(bytesOf(k)), 0, bytesOf(k)) // a few of a million share their hash with another
		c.put(hashed(bytesOf(k)), 0, k, []byte("12345678"), 1)
	}
}
