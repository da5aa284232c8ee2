package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// FuzzQuestionToStore: whatever bytes arrive as a question, the store actor answers it, with a value that fits or with a
// typed failure, and its engine is never blamed. Pages are in order and within what was asked for.
func FuzzQuestionToStore(f *testing.F) {
	d := openDir(f, vfs.NewMem())
	s, _ := openTask(f, d, testSpec())
	u := &Unit{Position: record.Position{source: 17}}
	for i := range 50 {
		u.Writes = append(u.Writes, writes(0, fmt.Sprintf("k%02d", i), fmt.Sprint(i))...)
	}
	apply(f, s, u)
	pid := system().Root.Spawn(NewActorProps(s, 0))
	f.Cleanup(func() {
		_ = system().Root.StopFuture(pid).Wait()
		closeDir(f, d)
	})
	b, _ := proto.Marshal(&querypb.Range{From: []byte("k07"), Packed: true, LimitEntries: 9})
	f.Add(byte(3), b)
	for i, q := range []proto.Message{&querypb.Open{}, &querypb.Get{Key: []byte("k01")}, &querypb.GetMany{Keys: [][]byte{[]byte("k01"), {}}},
		&querypb.Range{From: []byte("k01"), To: []byte("k09"), Reverse: true, LimitEntries: 3, Resume: []byte("k05")}, &querypb.Count{Approximate: true}} {
		b, _ := proto.Marshal(q)
		f.Add(byte(i), b)
	}
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		q := [...]query.Question{&querypb.Open{}, &querypb.Get{}, &querypb.GetMany{}, &querypb.Range{}, &querypb.Count{}}[which%5]
		if proto.Unmarshal(b, q) != nil || len(q.GetAbout().GetAtLeast()) > 0 { // one that waits would wait for its deadline
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		answer, err := actors.Ask(ctx, system(), pid, q)
		if err != nil {
			t.Fatal(err)
		}
		reply := answer.(*querypb.Reply)
		var failure *query.Failure
		if err := query.FromReply(reply); err != nil && (!errors.As(err, &failure) || failure.Kind == query.StoreFailure) {
			t.Fatalf("%v: %v", q, err)
		}
		if r, ok := q.(*querypb.Range); ok && failure == nil {
			fits(t, r, reply.GetPage())
		}
		if g, ok := q.(*querypb.GetMany); ok && failure == nil && len(reply.GetValues().GetValues()) != len(g.Keys) {
			t.Fatalf("%d values for %d keys", len(reply.GetValues().GetValues()), len(g.Keys))
		}
	})
}

// FuzzQuestionAboutWindows: whatever bytes arrive as a question about windows or sessions, the answer is what a walk over
// the whole store finds by comparing, cut to a page, or a typed failure.
func FuzzQuestionAboutWindows(f *testing.F) {
	d := openDir(f, vfs.NewMem())
	spec := windowSpec(kindWindow)
	s, _ := openTask(f, d, spec)
	u := &Unit{}
	for _, key := range []string{"", "a", "a\x00", "aa", "b"} {
		for at := int64(0); at < 2*minute; at += minute / 4 {
			u.Writes = append(u.Writes, windowWrite(kindWindow, key, at, "v"))
			u.Writes = append(u.Writes, Write{Store: 1, Key: record.AppendSessionSuffix([]byte(key), at/2, at), Value: []byte{}, Timestamp: at})
		}
	}
	slices.SortFunc(u.Writes, func(a, b Write) int { return cmp.Or(a.Store-b.Store, bytes.Compare(a.Key, b.Key)) })
	apply(f, s, u)
	pids := []*actor.PID{system().Root.Spawn(NewActorProps(s, 0)), system().Root.Spawn(NewActorProps(s, 1))}
	f.Cleanup(func() {
		for _, pid := range pids {
			_ = system().Root.StopFuture(pid).Wait()
		}
		closeDir(f, d)
	})
	at := int64(minute)
	for i, q := range []*querypb.Range{{Windows: &querypb.Windows{}}, {Windows: &querypb.Windows{KeyFrom: []byte("a"), KeyTo: []byte("a"), StartFrom: &at}},
		{Windows: &querypb.Windows{KeyTo: []byte("a\x00"), StartTo: &at}, Reverse: true, LimitEntries: 2, Packed: true}, {Windows: &querypb.Windows{EndFrom: &at, StartTo: &at}, From: []byte("a")}} {
		b, _ := proto.Marshal(q)
		f.Add(byte(i), b)
	}
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		q := &querypb.Range{}
		if proto.Unmarshal(b, q) != nil || len(q.GetAbout().GetAtLeast()) > 0 {
			return
		}
		if q.Windows == nil {
			q.Windows = &querypb.Windows{}
		}
		store := int(which % 2)
		reply, err := ask(t, pids[store], q)
		var failure *query.Failure
		if errors.As(err, &failure) && failure.Kind != query.StoreFailure {
			return
		}
		if fits(t, q, reply.GetPage()); err != nil {
			t.Fatal(err)
		}
		var want []string
		for e, err := range s.scan(store, pageSpan(q)) {
			if err != nil {
				t.Fatal(err)
			}
			if chosenBy(spec.Stores[store].Kind, q.Windows, e.Key) {
				want = append(want, string(e.Key))
			}
		}
		page := reply.GetPage()
		entries := unpacked(t, page)
		if n := len(entries); n > len(want) || !page.More && n != len(want) {
			t.Fatalf("%d windows, want %d", n, len(want))
		}
		for i, e := range entries {
			if string(e.Key) != want[i] {
				t.Fatalf("%x, want %x", e.Key, want[i])
			}
		}
	})
}

// chosenBy compares a key with what a question says, bound by bound.
func chosenBy(kind string, w *querypb.Windows, b []byte) bool {
	key, start, _, ok := record.SplitWindowKey(b)
	end := int64(0)
	if kind == kindSession {
		key, start, end, ok = record.SplitSessionKey(b)
	}
	low := func(bound *int64, at int64) bool { return bound == nil || at >= *bound }
	high := func(bound *int64, at int64) bool { return bound == nil || at <= *bound }
	return ok && low(w.StartFrom, start) && high(w.StartTo, start) && low(w.EndFrom, end) && high(w.EndTo, end) &&
		(w.KeyFrom == nil || bytes.Compare(key, w.KeyFrom) >= 0) && (w.KeyTo == nil || bytes.Compare(key, w.KeyTo) <= 0)
}

// unpacked are the entries of a page in either form.
func unpacked(t testing.TB, page *querypb.Page) (all []Entry) {
	t.Helper()
	entries := query.EntriesOf(page)
	for entries.Next() {
		all = append(all, Entry{Key: entries.Key, Value: entries.Value, Timestamp: entries.Timestamp})
	}
	if entries.Broken() {
		t.Fatalf("%x is no packed page", page.GetPacked())
	}
	return all
}

// fits wants a page to be what its question asks for.
func fits(t *testing.T, q *querypb.Range, page *querypb.Page) {
	t.Helper()
	if q.Packed && len(page.GetEntries()) > 0 || !q.Packed && len(page.GetPacked()) > 0 {
		t.Fatalf("a page of another form than the one that was asked for: %v", q)
	}
	entries := unpacked(t, page)
	if n := len(entries); q.LimitEntries > 0 && n > int(q.LimitEntries) || page.More && n == 0 && page.Resume == nil {
		t.Fatalf("%d entries, more: %v, for %v", n, page.More, q)
	}
	if q.Packed && page.More && page.Resume == nil {
		t.Fatalf("a packed page goes on from nowhere: %v", q)
	}
	last := q.Resume
	for _, e := range entries {
		c := bytes.Compare(e.Key, last)
		if last != nil && (c == 0 || c < 0 != q.Reverse) {
			t.Fatalf("%q after %q", e.Key, last)
		}
		above := q.To != nil && (bytes.Compare(e.Key, q.To) > 0 || !q.ToInclusive && bytes.Equal(e.Key, q.To))
		if above || q.From != nil && bytes.Compare(e.Key, q.From) < 0 {
			t.Fatalf("%q is out of %v", e.Key, q)
		}
		last = e.Key
	}
}
