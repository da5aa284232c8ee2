package query_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

// questions makes an empty question of each type.
var questions = []func() query.Question{
	func() query.Question { return &querypb.Open{} },
	func() query.Question { return &querypb.Get{} },
	func() query.Question { return &querypb.GetMany{} },
	func() query.Question { return &querypb.Range{} },
	func() query.Question { return &querypb.Count{} },
	func() query.Question { return &querypb.ListStores{} },
	func() query.Question { return &querypb.Locate{} },
	func() query.Question { return &querypb.ListRestores{} },
}

// FuzzQuestion: whatever bytes arrive as a question, what is said about it is within the limits.
func FuzzQuestion(f *testing.F) {
	for i, q := range []proto.Message{&querypb.Open{About: &querypb.About{Store: "s"}}, &querypb.Get{Key: []byte{}}, &querypb.GetMany{Keys: [][]byte{{1}, {}}},
		&querypb.Range{From: []byte("b"), To: []byte("a")}, &querypb.Range{Windows: &querypb.Windows{KeyFrom: []byte("b"), KeyTo: []byte("a")}}, &querypb.Count{About: &querypb.About{TimeoutMs: 1 << 62, DeadlineMs: -5}}} {
		b, _ := proto.Marshal(q)
		f.Add(byte(i), b)
	}
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		q := questions[int(which)%len(questions)]()
		if proto.Unmarshal(b, q) != nil {
			return
		}
		_, _ = query.Deadline(q, time.Unix(0, 0))
		if query.Mistake(q) != "" {
			return
		}
		switch q := q.(type) {
		case *querypb.Get:
			if q.Key == nil {
				t.Fatal("a null key passes")
			}
		case *querypb.Range:
			if q.From != nil && q.To != nil && bytes.Compare(q.From, q.To) > 0 {
				t.Fatal("a range backwards passes")
			}
			if w := q.Windows; w != nil && (w.KeyFrom != nil && w.KeyTo != nil && bytes.Compare(w.KeyFrom, w.KeyTo) > 0 ||
				w.StartFrom != nil && w.StartTo != nil && *w.StartFrom > *w.StartTo || max(len(w.KeyFrom), len(w.KeyTo)) > query.MaxKeyBytes) {
				t.Fatal("windows backwards pass, or a key that is too long")
			}
		case *querypb.GetMany:
			if len(q.Keys) == 0 || len(q.Keys) > query.MaxKeys {
				t.Fatal("too many keys, or none, pass")
			}
		}
	})
}

// raw is a client that answers with bytes.
type raw struct{ b []byte }

func (r raw) Partitions(context.Context, string) (int32, error) { return 2, nil }

func (r raw) Ask(context.Context, query.Question) (*querypb.Reply, error) {
	reply := &querypb.Reply{}
	if err := proto.Unmarshal(r.b, reply); err != nil {
		return nil, err
	}
	return reply, nil
}

// FuzzReply: whatever bytes arrive as a reply, every read ends, in a value or in a *Failure, and a failure that is passed
// on is the same again.
func FuzzReply(f *testing.F) {
	failure := query.New(query.StateStoreMigrated, "counts", 1)
	failure.LastKey, failure.Owner = []byte{}, "there:1"
	for _, r := range []*querypb.Reply{{}, query.ToReply(failure), {Answer: &querypb.Reply_Value{}}, {Answer: &querypb.Reply_Page{Page: &querypb.Page{More: true}}},
		{Answer: &querypb.Reply_Page{Page: &querypb.Page{Entries: []*querypb.Entry{{Key: []byte("k"), Value: make([]byte, 8)}}}}},
		{Answer: &querypb.Reply_Page{Page: &querypb.Page{More: true, Resume: []byte("k")}}},
		{Answer: &querypb.Reply_Page{Page: &querypb.Page{Packed: query.AppendEntry(nil, []byte("k"), make([]byte, 8), 7)}}},
		{Answer: &querypb.Reply_Page{Page: &querypb.Page{Entries: []*querypb.Entry{{Key: record.AppendSessionSuffix([]byte("k"), 1, 2), Value: make([]byte, 8)}}}}},
		{Answer: &querypb.Reply_Values{Values: &querypb.Values{Values: []*querypb.Value{{Present: true, Value: make([]byte, 8)}}}}},
		{Answer: &querypb.Reply_Locations{Locations: &querypb.Locations{Locations: []*querypb.Location{{Owner: "x"}}}}}} {
		b, _ := proto.Marshal(r)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := raw{b}
		_, _, err1 := query.Get(ctx, c, counts, "k")
		results, err2 := query.GetMany(ctx, c, counts, []string{"k", "l"})
		_, err3 := query.Count(ctx, c, counts)
		_, err4 := query.Open(ctx, c, counts)
		var err5 error
		n := 0
		for _, err := range query.All(ctx, c, counts) {
			if err5 = err; n == 1000 {
				break // a page that promises more and brings an entry each time
			}
			n++
		}
		for _, err := range append([]error{err1, err2, err3, err4, err5, windows(t, c), sessions(t, c)}, errorsOf(results)...) {
			var f *query.Failure
			if err != nil && !errors.As(err, &f) {
				t.Fatalf("untyped: %v", err)
			}
			if f != nil && (f.Error() == "" || !errors.Is(f, query.ErrInvalidStateStore)) {
				t.Fatalf("%+v", f)
			}
		}
		_, _ = query.Locate(ctx, c, counts, "k")
		_, _ = query.Stores(ctx, c)
		_, _ = query.Restores(ctx, c, "")
		again(t, b)
	})
}

// windows and sessions read whatever c answers as windows; what they get are windows.
func windows(t *testing.T, c query.Client) (err error) {
	_, _, err = query.Fetch(ctx, c, perMinute, "k", 0)
	for reverse, opts := range [][]query.Option{nil, {query.Reverse()}} {
		n := 0
		for e, err := range query.AllWindows(ctx, c, perMinute, opts...) {
			if err == nil && (e.Key.Start < 0 || e.Key.End != e.Key.Start+60_000) {
				t.Fatalf("%d: %+v is no window", reverse, e.Key)
			}
			if n++; n > 1000 {
				break
			}
		}
	}
	return err
}

func sessions(t *testing.T, c query.Client) (err error) {
	n := 0
	var e query.Entry[record.Windowed[string], int64]
	for e, err = range query.FindSessions(ctx, c, visits, "k", 0, 1) {
		if err == nil && (e.Key.Start < 0 || e.Key.End < e.Key.Start) {
			t.Fatalf("%+v is no session", e.Key)
		}
		if n++; n > 1000 {
			break
		}
	}
	return err
}

func errorsOf(results []query.Result[int64]) (all []error) {
	for _, r := range results {
		all = append(all, r.Err)
	}
	return all
}

// again: a failure that a node passes on is as it came.
func again(t *testing.T, b []byte) {
	reply := &querypb.Reply{}
	if proto.Unmarshal(b, reply) != nil || reply.GetFailure() == nil {
		return
	}
	once := query.FromProto(reply.GetFailure())
	twice := query.FromProto(query.ToProto(once))
	if once.Kind != twice.Kind || once.Partition != twice.Partition || once.Owner != twice.Owner || !bytes.Equal(once.LastKey, twice.LastKey) ||
		(once.LastKey == nil) != (twice.LastKey == nil) || once.Fatal() != twice.Fatal() || len(once.Reached) != len(twice.Reached) {
		t.Fatalf("%+v became %+v", once, twice)
	}
}

// FuzzPrefixEnd: a key begins with the prefix exactly if it is between the prefix and its end.
func FuzzPrefixEnd(f *testing.F) {
	f.Add([]byte("ab"), []byte("abc"))
	f.Add([]byte{0xff, 0xff}, []byte{0xff, 0xff, 0})
	f.Add([]byte{1, 0xff}, []byte{2})
	f.Fuzz(func(t *testing.T, prefix, key []byte) {
		end := query.PrefixEnd(prefix)
		between := bytes.Compare(key, prefix) >= 0 && (end == nil || bytes.Compare(key, end) < 0)
		if between != bytes.HasPrefix(key, prefix) {
			t.Fatalf("prefix %x, end %x, key %x", prefix, end, key)
		}
	})
}

// FuzzOrderedKey: bytes that are not a key of the codec are a typed refusal, and those that are come back the same.
func FuzzOrderedKey(f *testing.F) {
	f.Add([]byte("12345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := codec.OrderedInt64.Decode(b)
		if err != nil {
			var e *codec.Error
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			return
		}
		if out, err := codec.OrderedInt64.Encode(nil, n); err != nil || !bytes.Equal(out, b) {
			t.Fatalf("%x became %x, %v", b, out, err)
		}
	})
}
