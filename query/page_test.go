package query_test

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// A page says the same in both of its forms.
func TestPackedPageIsThePage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 0, 300)
		list := rapid.SliceOf(rapid.Custom(func(t *rapid.T) *querypb.Entry {
			return &querypb.Entry{Key: text.Draw(t, "key"), Value: text.Draw(t, "value"), Timestamp: rapid.Int64().Draw(t, "timestamp")}
		})).Draw(t, "entries")
		var packed []byte
		for _, e := range list {
			packed = query.AppendEntry(packed, e.Key, e.Value, e.Timestamp)
		}
		one, two := query.EntriesOf(&querypb.Page{Entries: list}), query.EntriesOf(&querypb.Page{Packed: packed})
		for i := range list {
			if !one.Next() || !two.Next() || !bytes.Equal(one.Key, two.Key) || !bytes.Equal(one.Value, two.Value) || one.Timestamp != two.Timestamp || two.Key == nil || two.Value == nil {
				t.Fatalf("entry %d: %x %x %d, packed %x %x %d", i, one.Key, one.Value, one.Timestamp, two.Key, two.Value, two.Timestamp)
			}
		}
		if one.Next() || two.Next() || one.Broken() || two.Broken() {
			t.Fatal("there is more in the page than was put into it")
		}
	})
}

// A page that is cut off is no end of a scan: it ends with a failure that has the last whole entry's key.
func TestBrokenPageEndsAScanWithAFailure(t *testing.T) {
	whole := query.AppendEntry(query.AppendEntry(nil, []byte("a"), make([]byte, 8), 1), []byte("b"), make([]byte, 8), 2)
	for n := len(whole)/2 + 1; n < len(whole); n++ {
		b, err := proto.Marshal(&querypb.Reply{Answer: &querypb.Reply_Page{Page: &querypb.Page{Packed: whole[:n]}}})
		if err != nil {
			t.Fatal(err)
		}
		entries, last := 0, error(nil)
		for _, err := range query.All(t.Context(), raw{b}, counts, query.Partition(0)) {
			if last = err; err == nil {
				entries++
			}
		}
		var f *query.Failure
		if entries != 1 || !errors.As(last, &f) || f.Kind != query.StoreFailure || string(f.LastKey) != "a" || f.Partition != 0 {
			t.Errorf("%d of %d bytes: %d entries, %v", n, len(whole), entries, last)
		}
	}
}

// FuzzPackedPage: bytes are read to their end or to where they are no page, and what was read is put together again as it was,
// but for lengths that are longer than they need be.
func FuzzPackedPage(f *testing.F) {
	f.Add(query.AppendEntry(query.AppendEntry(nil, []byte("key"), []byte("value"), -1), nil, nil, 1<<62))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0x80, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		e := query.EntriesOf(&querypb.Page{Packed: b})
		var again []byte
		for e.Next() {
			again = query.AppendEntry(again, e.Key, e.Value, e.Timestamp)
		}
		if e.Next() || !e.Broken() && len(again) > len(b) {
			t.Fatalf("%x became %x", b, again)
		}
		e = query.EntriesOf(&querypb.Page{Packed: again})
		var twice []byte
		for e.Next() {
			twice = query.AppendEntry(twice, e.Key, e.Value, e.Timestamp)
		}
		if e.Broken() || !bytes.Equal(again, twice) {
			t.Fatalf("%x became %x", again, twice)
		}
	})
}
