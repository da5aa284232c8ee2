package remote_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	wire "github.com/asynkron/protoactor-go/remote"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/remote"
)

// Every read of the typed client works from another process, in both ways, and a failure arrives with its kind.
func TestDialAsks(t *testing.T) {
	r := start(t, 1, answers)
	for _, scheme := range schemes {
		c := dial(t, scheme, []string{r.Address()})
		if n, err := c.Partitions(t.Context(), "counts"); n != 2 || err != nil {
			t.Fatal(scheme, n, err)
		}
		v, found, err := query.Get(t.Context(), c, counts, "word", query.Partition(0))
		if v != "word" || !found || err != nil {
			t.Fatal(scheme, v, found, err)
		}
		view, err := query.Open(t.Context(), c, counts)
		if err != nil || view.Epoch(0) == 0 {
			t.Fatal(scheme, err)
		}
		for e, err := range query.All(t.Context(), c, counts, query.Partition(0)) {
			if err != nil || e.Key != "k" || e.Value != "v" {
				t.Fatal(scheme, e, err)
			}
		}
		_, _, err = query.Get(t.Context(), c, counts, "word", query.Partition(7))
		if !errors.Is(err, query.ErrPartitionNotInStore) {
			t.Fatal(scheme, err)
		}
		if _, err := c.Partitions(t.Context(), "misspelt"); !errors.Is(err, query.ErrUnknownStateStore) {
			t.Fatal(scheme, err)
		}
	}
	if r.Refusals().Total() != 0 {
		t.Error(r.Refusals().Counts())
	}
}

// A failure that names the owner is followed there, by either kind of client, although only one node was named to it.
func TestOwnersAreFollowed(t *testing.T) {
	one, two := start(t, 1, answers), start(t, 2, answers)
	one.Owners(map[string]map[int32]string{"counts": {1: two.Address()}})
	for _, scheme := range schemes {
		c := dial(t, scheme, []string{one.Address()})
		for range 2 {
			if v, _, err := query.Get(t.Context(), c, counts, "word", query.Partition(1)); v != "word" || err != nil {
				t.Fatal(scheme, v, err)
			}
		}
	}
}

// A program that uses the library's own remoting asks the PID that StorePID gives, and so does an actor of a node that asks
// another node.
func TestProtoactorAsksByPID(t *testing.T) {
	r := start(t, 1, answers)
	raw := rawSystem(t)
	ours := start(t, 1, answers)
	for name, system := range map[string]*actor.ActorSystem{"the library's remoting": raw, "a node's": ours.system} {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				key := fmt.Sprint("key-", i)
				v, err := system.Root.RequestFuture(actor.NewPID(r.Address(), "app/query/counts/0"), &querypb.Get{Key: []byte(key)}, 20*time.Second).Result()
				if reply, ok := v.(*querypb.Reply); err != nil || !ok || string(reply.GetValue().GetValue()) != key {
					t.Errorf("%s: %v, %v", name, v, err)
				}
			})
		}
		wg.Wait()
		for id, want := range map[string]querypb.Kind{
			"app/query/counts/1": querypb.Kind_KIND_INVALID_STATE_STORE_PARTITION, "app/query/counts/9": querypb.Kind_KIND_PARTITION_NOT_IN_STORE,
			"app/query/nothing/0": querypb.Kind_KIND_UNKNOWN_STATE_STORE,
		} {
			v, err := system.Root.RequestFuture(actor.NewPID(r.Address(), id), &querypb.Get{Key: []byte("k")}, 20*time.Second).Result()
			if reply, ok := v.(*querypb.Reply); err != nil || !ok || reply.GetFailure().GetKind() != want {
				t.Errorf("%s: %s: %v, %v", name, id, v, err)
			}
			if _, there := r.system.ProcessRegistry.GetLocal(id); there {
				t.Errorf("asking has made %s", id)
			}
		}
		v, err := system.Root.RequestFuture(actor.NewPID(r.Address(), "app/query"), &querypb.ListStores{}, 20*time.Second).Result()
		if reply, ok := v.(*querypb.Reply); err != nil || !ok || len(reply.GetStores().GetStores()) != 1 {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

// rawSystem is an actor system with the library's remoting.
func rawSystem(t *testing.T) *actor.ActorSystem {
	system := actors.NewSystem(slog.New(slog.DiscardHandler))
	l := wire.NewRemote(system, wire.Configure("127.0.0.1", 0, wire.WithEndpointWriterQueueSize(1024)))
	l.Start()
	t.Cleanup(func() { l.Shutdown(true) })
	return system
}

// A node that cannot be reached, and one that stands still, end the question in time and with a kind.
func TestNobodyThere(t *testing.T) {
	r := start(t, 1, silent)
	gone := newRig("127.0.0.1:0")
	gone.Close()
	for _, scheme := range schemes {
		if _, err := remote.Dial(t.Context(), []string{scheme + gone.Address()}); !errors.Is(err, query.ErrStreamThreadNotRunning) {
			t.Errorf("%q: %v", scheme, err)
		}
		c := dial(t, scheme, []string{r.Address()})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, _, err := query.Get(ctx, c, counts, "word", query.Partition(0))
		deadline, _ := ctx.Deadline()
		if late := time.Since(deadline); !errors.Is(err, query.ErrDeadlineExceeded) || late > time.Second {
			t.Errorf("%q: %v, %s late", scheme, err, late)
		}
		cancel()
	}
}

// When the node closes, what is outstanding fails at once, and the client finds the next node at the address.
func TestClosingFailsWhatIsOutstanding(t *testing.T) {
	asked := make(chan struct{}, 8)
	r := newRig("127.0.0.1:0")
	r.serve(1, func(ctx actor.Context) {
		if _, ok := ctx.Message().(*querypb.Get); ok {
			asked <- struct{}{}
		}
	})
	for _, scheme := range schemes {
		c := dial(t, scheme, []string{r.Address()})
		go func() { <-asked; r.Close() }()
		_, _, err := query.Get(t.Context(), c, counts, "word", query.Partition(0))
		if !errors.Is(err, query.ErrStateStoreNotAvailable) || !errors.Is(err, query.ErrFatal) {
			t.Fatalf("%q: %v", scheme, err)
		}
		if _, _, err = query.Get(t.Context(), c, counts, "word", query.Partition(0)); !errors.Is(err, query.ErrStreamThreadNotRunning) {
			t.Fatalf("%q: %v", scheme, err)
		}
		address := r.Address()
		r = newRig(address)
		r.serve(1, func(ctx actor.Context) {
			if q, ok := ctx.Message().(*querypb.Get); ok && string(q.Key) == "word" {
				asked <- struct{}{}
			} else {
				answers(ctx)
			}
		})
		v, err := query.RetryGet(t.Context(), query.Policy{Elsewhere: true}, func(ctx context.Context) (string, error) {
			v, _, err := query.Get(ctx, c, counts, "other", query.Partition(0))
			return v, err
		})
		if v != "other" || err != nil {
			t.Fatal(v, err)
		}
	}
	r.Close()
}
