package router_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/router"
)

// Each question counts once, as what it was answered with; those to stores that do not exist count as one store.
func TestCounts(t *testing.T) {
	var told atomic.Int64
	of, none := &router.Counts{Waited: func(time.Duration) { told.Add(1) }}, &router.Counts{}
	r := newRig(t, router.Options{Outstanding: 1, Counts: map[string]*router.Counts{"counts": of, "": none}})
	r.fails(about(0), query.ErrStreamThreadNotStarted)
	for _, name := range []string{"misspelt", "another"} {
		unknown := about(0)
		unknown.Store = name
		r.fails(unknown, query.ErrUnknownStateStore)
	}
	if _, err := r.Router.Partitions(context.Background(), "misspelt"); err == nil {
		t.Error("it exists")
	}
	r.running(answers)
	for range 5 {
		if _, err := r.get(about(0)); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.Waiting()["counts"]; n != 0 {
		t.Error(n)
	}
	r.Revoked("counts", 0, "")
	r.serve(silent)
	late := int64(0)
	for ; r.Waiting()["counts"] == 0; late++ { // a machine that is slow lets one in when its time is over
		a := about(0)
		a.DeadlineMs = time.Now().Add(30 * time.Millisecond).UnixMilli()
		r.fails(a, query.ErrDeadlineExceeded)
	}
	r.fails(about(0), query.ErrOverloaded)
	r.Revoked("counts", 0, "")
	r.Opening("counts", 0, "thread-1", 2)
	r.Restoring("counts", 0, lifecycle.Progress{Remaining: 7})
	if all := r.Restores(); len(all) != 1 || all[0].Store != "counts" || all[0].Partition != 0 || all[0].Progress.Remaining != 7 {
		t.Errorf("%+v", all)
	}

	if of.Answers() != 5 || told.Load() != 5 || none.Answers() != 0 {
		t.Errorf("%d answers, %d of them told", of.Answers(), told.Load())
	}
	for _, k := range query.Kinds() {
		want := map[query.Kind]int64{query.StreamThreadNotStarted: 1, query.DeadlineExceeded: late, query.Overloaded: 1}[k]
		if n := of.Failures(k); n != want {
			t.Errorf("%d of %s, not %d", n, k, want)
		}
		want = map[query.Kind]int64{query.UnknownStateStore: 3}[k]
		if n := none.Failures(k); n != want {
			t.Errorf("%d of %s of no store, not %d", n, k, want)
		}
	}
	if of.Failures(200) != 0 {
		t.Error("there is no such kind")
	}
}
