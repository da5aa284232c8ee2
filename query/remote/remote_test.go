package remote_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	wire "github.com/asynkron/protoactor-go/remote"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

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

// A program that uses the library's own remoting asks the PID that StorePID gives. It is another process, because the
// library sets variables of the RPC library that others read.
func TestProtoactorAsksByPID(t *testing.T) {
	r := start(t, 1, answers)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+r.Address())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	noGatesMade(t, r)
}

// askRaw is what that program does; it returns its exit code.
func askRaw(address string) int {
	system := actors.NewSystem(slog.New(slog.DiscardHandler))
	wire.NewRemote(system, wire.Configure("127.0.0.1", 0, wire.WithEndpointWriterQueueSize(1024))).Start()
	if err := askAll(system, address); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// An actor of a node asks another node in the same way.
func TestANodesActorsAskByPID(t *testing.T) {
	r, ours := start(t, 1, answers), start(t, 1, answers)
	if err := askAll(ours.system, r.Address()); err != nil {
		t.Error(err)
	}
	noGatesMade(t, r)
	gone := newRig("127.0.0.1:0")
	gone.Close()
	v, err := ours.system.Root.RequestFuture(actor.NewPID(gone.Address(), "app/query/counts/0"), &querypb.Get{Key: []byte("k")}, patience).Result()
	if reply, ok := v.(*querypb.Reply); err != nil || !ok || reply.GetFailure().GetKind() != querypb.Kind_KIND_STREAM_THREAD_NOT_RUNNING {
		t.Errorf("nobody there: %v, %v", v, err)
	}
}

// strange are gates that do not exist, and what they say.
var strange = map[string]querypb.Kind{
	"app/query/counts/1": querypb.Kind_KIND_INVALID_STATE_STORE_PARTITION, "app/query/counts/9": querypb.Kind_KIND_PARTITION_NOT_IN_STORE,
	"app/query/nothing/0": querypb.Kind_KIND_UNKNOWN_STATE_STORE,
}

func noGatesMade(t *testing.T, r *rig) {
	t.Helper()
	for id := range strange {
		if _, there := r.system.ProcessRegistry.GetLocal(id); there {
			t.Errorf("asking has made %s", id)
		}
	}
}

// askAll asks a node from an actor system with remoting, many times at once, and for gates that do not exist.
func askAll(system *actor.ActorSystem, address string) error {
	ask := func(id string, q proto.Message) (*querypb.Reply, error) {
		v, err := system.Root.RequestFuture(actor.NewPID(address, id), q, patience).Result()
		if reply, ok := v.(*querypb.Reply); ok {
			return reply, err
		}
		return nil, fmt.Errorf("%v, %w", v, err)
	}
	var group errgroup.Group
	for i := range 50 {
		group.Go(func() error {
			key := fmt.Sprint("key-", i)
			if reply, err := ask("app/query/counts/0", &querypb.Get{Key: []byte(key)}); err != nil || string(reply.GetValue().GetValue()) != key {
				return fmt.Errorf("%s: %v, %w", key, reply, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for id, want := range strange {
		if reply, err := ask(id, &querypb.Get{Key: []byte("k")}); err != nil || reply.GetFailure().GetKind() != want {
			return fmt.Errorf("%s: %v, %w", id, reply, err)
		}
	}
	if reply, err := ask("app/query", &querypb.ListStores{}); err != nil || len(reply.GetStores().GetStores()) != 1 {
		return fmt.Errorf("the node: %v, %w", reply, err)
	}
	return nil
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
		if late := time.Since(deadline); !errors.Is(err, query.ErrDeadlineExceeded) || late > patience {
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
		closing, closed := r, make(chan struct{})
		go func() { defer close(closed); <-asked; closing.Close() }()
		_, _, err := query.Get(t.Context(), c, counts, "word", query.Partition(0))
		if !errors.Is(err, query.ErrStateStoreNotAvailable) || !errors.Is(err, query.ErrFatal) {
			t.Fatalf("%q: %v", scheme, err)
		}
		<-closed
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

// What another process is told of a store that has failed holds nothing of the host.
func TestNothingOfTheHostLeaves(t *testing.T) {
	r := start(t, 1, answers)
	r.Failed("counts", 0, errors.New("open /var/lib/secret/0_0: dial 10.9.8.7:9092: permission denied"))
	for _, scheme := range schemes {
		_, _, err := query.Get(t.Context(), dial(t, scheme, []string{r.Address()}), counts, "word", query.Partition(0))
		f := (*query.Failure)(nil)
		if !errors.As(err, &f) || f.Kind != query.StoreFailure && f.Kind != query.StreamThreadRebalancing {
			t.Fatalf("%q: %v", scheme, err)
		}
		if told := fmt.Sprintf("%v %+v %v", err, f, f.Cause); strings.Contains(told, "secret") || strings.Contains(told, "10.9.8.7") {
			t.Errorf("%q: %s", scheme, told)
		}
	}
}
