package router_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

func TestStoresAreListedInEveryState(t *testing.T) {
	r := newRig(t, router.Options{})
	for _, c := range []struct {
		publish    func()
		partitions int32
	}{
		{func() {}, 0},
		{r.run, 2},
		{func() { r.Node(lifecycle.NodePendingError); r.Node(lifecycle.NodeError) }, 2},
	} {
		c.publish()
		got, err := query.Stores(t.Context(), r)
		want := []query.StoreInfo{{Name: "counts", Kind: "key-value", KeyCodec: "string", ValueCodec: "int64", Partitions: c.partitions}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
}

func TestLocateSaysWhoHasWhat(t *testing.T) {
	r := newRig(t, router.Options{Endpoint: "here:1"})
	locate := func() (query.Location, error) { return query.Locate(t.Context(), r, counts, keyOf(1)) }
	if _, err := locate(); !errors.Is(err, query.ErrStreamThreadNotStarted) {
		t.Error(err)
	}
	r.running(answers)
	r.Owners(map[string]map[int32]string{"counts": {1: "there:1", 0: "here:1"}})
	if l, err := locate(); err != nil || l.Partition != 1 || l.Owner != "there:1" || l.Here || l.State != "none" {
		t.Errorf("%+v %v", l, err)
	}
	all, err := query.Locations(t.Context(), r, "counts")
	if err != nil || len(all) != 2 || all[0].Owner != "here:1" || !all[0].Here || all[0].State != "serving" || all[0].Epoch == 0 || all[0].Thread != "RUNNING" {
		t.Errorf("%+v %v", all, err)
	}
	if _, err := query.Locate(t.Context(), r, counts, "k", query.Partition(9)); !errors.Is(err, query.ErrPartitionNotInStore) {
		t.Error(err)
	}
	if _, err := query.Locations(t.Context(), r, "misspelt"); !errors.Is(err, query.ErrUnknownStateStore) {
		t.Error(err)
	}
	if _, err := query.Locations(t.Context(), r, ""); !errors.Is(err, query.ErrInvalidQuery) {
		t.Error(err)
	}
	r.Node(lifecycle.NodePendingShutdown)
	if _, err := locate(); !errors.Is(err, query.ErrStreamThreadNotRunning) {
		t.Error(err)
	}
}

func TestRestoresAreListedWithTheirProgress(t *testing.T) {
	r := newRig(t, router.Options{})
	r.run()
	for p := range int32(2) {
		r.Opening("counts", 1-p, "thread-1", 1)
		r.Restoring("counts", 1-p, lifecycle.Progress{Restored: 61, Remaining: 39, Started: time.Now().Add(-time.Minute)})
	}
	got, err := query.Restores(t.Context(), r, "")
	if err != nil || len(got) != 2 || got[0].Partition != 0 || got[1].Progress.Remaining != 39 || got[0].Left < 30*time.Second || got[0].Left > time.Minute {
		t.Errorf("%+v %v", got, err)
	}
	r.Revoked("counts", 0, "")
	if got, err := query.Restores(t.Context(), r, "counts"); err != nil || len(got) != 1 {
		t.Errorf("%+v %v", got, err)
	}
}

// Whoever has a PID, the node's or a gate's, needs nothing else to find out.
func TestPIDsAnswerAboutTheNode(t *testing.T) {
	r := newRig(t, router.Options{Endpoint: "here:1"})
	r.running(answers)
	ask := func(pid *actor.PID, m any) *querypb.Reply {
		t.Helper()
		v, err := r.system.Root.RequestFuture(pid, m, patience).Result()
		if err != nil {
			t.Fatal(err)
		}
		return v.(*querypb.Reply)
	}
	for _, pid := range []*actor.PID{r.NodePID(), r.PID("counts", 0)} {
		if n := len(ask(pid, &querypb.ListStores{}).GetStores().GetStores()); n != 1 {
			t.Errorf("%d stores", n)
		}
		if ask(pid, &querypb.ListRestores{}).GetRestores() == nil {
			t.Error("no list of restores")
		}
	}
	if l := ask(r.PID("counts", 0), &querypb.Locate{}).GetLocations().GetLocations(); len(l) != 1 || !l[0].Here {
		t.Errorf("a gate locates %v", l)
	}
	for _, m := range []any{"what?", &querypb.Get{Key: []byte("k")}} {
		if k := ask(r.NodePID(), m).GetFailure().GetKind(); k != querypb.Kind_KIND_INVALID_QUERY {
			t.Errorf("%v: %v", m, k)
		}
	}
	r.noDeadLetters()
}

// H1: a misspelt name and a wrong type are told as what they are, in every state, and name what exists.
func TestMistakesAreToldInEveryState(t *testing.T) {
	r := newRig(t, router.Options{})
	check := func(state string) {
		t.Helper()
		_, _, err := query.Get(t.Context(), r, topology.NewKeyValueStore("conts", codec.String, codec.Int64), "k")
		if !errors.Is(err, query.ErrUnknownStateStore) || !errors.Is(err, query.ErrFatal) || !strings.Contains(err.Error(), `it has "counts"`) {
			t.Errorf("%s: %v", state, err)
		}
		reads := map[string]func(h query.Handle[string, int64]) error{
			"get":  func(h query.Handle[string, int64]) error { _, _, err := query.Get(t.Context(), r, h, "k"); return err },
			"open": func(h query.Handle[string, int64]) error { _, err := query.Open(t.Context(), r, h); return err },
			"many": func(h query.Handle[string, int64]) error {
				_, err := query.GetMany(t.Context(), r, h, []string{"k"})
				return err
			},
			"count": func(h query.Handle[string, int64]) error { _, err := query.Count(t.Context(), r, h); return err },
			"scan": func(h query.Handle[string, int64]) (last error) {
				for _, last = range query.All(t.Context(), r, h) {
				}
				return last
			},
		}
		for name, read := range reads {
			err := read(windowed{counts})
			if !errors.Is(err, query.ErrStateStoreTypeMismatch) || !errors.Is(err, query.ErrFatal) || !strings.Contains(err.Error(), "its kind is key-value, and the question's is window") {
				t.Errorf("%s in %s: %v", name, state, err)
			}
		}
	}
	check("CREATED")
	r.run()
	check("REBALANCING")
	r.Opening("counts", 0, "thread-1", 1)
	r.Restoring("counts", 0, lifecycle.Progress{Restored: 1, Remaining: 1})
	check("restoring")
	r.running(answers)
	check("RUNNING")
	r.Node(lifecycle.NodePendingShutdown)
	check("PENDING_SHUTDOWN")
	r.Node(lifecycle.NodeNotRunning)
	check("NOT_RUNNING")
	r.noDeadLetters()
}

// Names and numbers that callers make up cost no memory: only PID makes a gate.
func TestAskingMakesNoGates(t *testing.T) {
	r := newRig(t, router.Options{})
	r.running(answers)
	for _, id := range []string{"app/query/misspelt/0", "app/query/counts/7", "app/query/counts/1"} {
		at := about(0)
		words := strings.Split(id, "/")
		p := int32(words[3][0] - '0')
		at.Store, at.Partition = words[2], &p
		if _, err := r.get(at); err == nil {
			t.Fatal("there is no such thing")
		}
		if _, ok := r.system.ProcessRegistry.GetLocal(id); ok {
			t.Errorf("asking has made %s", id)
		}
	}
	if _, ok := r.system.ProcessRegistry.GetLocal("app/query/counts/0"); !ok {
		t.Error("the gate that was published is not there: this test sees nothing")
	}
}

// A View of an earlier life of the process, or of another process, matches no lease of this one by chance.
func TestEpochsOfTwoLivesDiffer(t *testing.T) {
	first, second := newRig(t, router.Options{}), newRig(t, router.Options{})
	first.running(answers)
	second.running(answers)
	reply, err := first.get(about(0))
	if err != nil || reply.Epoch >= 1<<53 {
		t.Fatal(err, reply.GetEpoch())
	}
	view := about(0)
	view.Epoch = reply.Epoch
	second.fails(view, query.ErrStateStoreMigrated)
}

// What a stuck store has not taken stays outstanding after its askers have given up: its mailbox is bounded too.
func TestStuckStoreIsOverloadedNotEndless(t *testing.T) {
	r := newRig(t, router.Options{Outstanding: 3})
	entered, release := make(chan struct{}, 8), make(chan struct{})
	r.running(func(ctx actor.Context) {
		if _, ok := ctx.Message().(query.Question); ok {
			entered <- struct{}{}
			<-release
			answers(ctx)
		}
	})
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		a := about(0)
		deadline, _ := ctx.Deadline()
		a.DeadlineMs = deadline.UnixMilli()
		_, err := r.Ask(ctx, &querypb.Get{About: a, Key: []byte("k")})
		return err
	}
	asked := 0
	for err := ask(); !errors.Is(err, query.ErrOverloaded); err = ask() {
		if asked++; !errors.Is(err, query.ErrDeadlineExceeded) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	if asked < 3 { // one whose deadline has passed before the gate sees it does not wait there, so there may be more
		t.Errorf("overloaded after %d", asked)
	}
	v, err := r.system.Root.RequestFuture(r.PID("counts", 0), &querypb.Get{Key: []byte("k")}, patience).Result()
	if k := v.(*querypb.Reply).GetFailure().GetKind(); err != nil || k != querypb.Kind_KIND_OVERLOADED {
		t.Fatal(v, err)
	}
	close(release)
	for range 3 {
		<-entered
	}
	err = query.Retry(t.Context(), query.Policy{}, func(context.Context) error { _, err := r.get(about(0)); return err })
	if err != nil {
		t.Fatal("it does not recover:", err)
	}
	r.noDeadLetters()
}

// An asker that has stopped waiting is no dead letter, whether a value comes late or a failure.
func TestAnswersToNobodyAreCounted(t *testing.T) {
	r := newRig(t, router.Options{})
	release, done := make(chan struct{}), make(chan struct{})
	r.running(func(ctx actor.Context) {
		if _, ok := ctx.Message().(query.Question); ok {
			<-release
			answers(ctx)
			close(done)
		}
	})
	_, err := r.system.Root.RequestFuture(r.PID("counts", 0), &querypb.Get{Key: []byte("k")}, 10*time.Millisecond).Result()
	if err == nil {
		t.Fatal("answered")
	}
	close(release)
	<-done
	if r.Dropped() != 1 {
		t.Errorf("%d dropped", r.Dropped())
	}
	r.noDeadLetters()
}
