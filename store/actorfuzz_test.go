package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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

// fits wants a page to be what its question asks for.
func fits(t *testing.T, q *querypb.Range, page *querypb.Page) {
	t.Helper()
	if n := len(page.Entries); q.LimitEntries > 0 && n > int(q.LimitEntries) || page.More && n == 0 {
		t.Fatalf("%d entries, more: %v, for %v", n, page.More, q)
	}
	last := q.Resume
	for _, e := range page.Entries {
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
