package router_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long anything may take before a test gives up.
const patience = time.Minute

// rig is a router with one store of two partitions and a thread, as a node publishes them.
type rig struct {
	*router.Router
	t      testing.TB
	system *actor.ActorSystem
	// dead counts dead letters. Questions and answers must never become one.
	dead atomic.Int64
}

func newRig(t testing.TB, opts router.Options) *rig {
	r := &rig{t: t, system: actors.NewSystem(slog.New(slog.DiscardHandler))}
	r.system.EventStream.Subscribe(func(e any) {
		if _, ok := e.(*actor.DeadLetterEvent); ok {
			r.dead.Add(1)
		}
	})
	r.start(opts)
	return r
}

func (r *rig) start(opts router.Options) {
	r.Router = router.New(r.system, "app", opts)
	r.Declare([]router.StoreInfo{{Name: "counts", Kind: "key-value", KeyCodec: "string", ValueCodec: "int64"}})
}

// run publishes what a started node does, up to a thread that is rebalancing.
func (r *rig) run() {
	r.SetPartitions("counts", 2)
	r.Node(lifecycle.NodeRebalancing)
	r.thread(lifecycle.ThreadRebalancing)
}

func (r *rig) thread(s lifecycle.Thread) {
	r.Thread(lifecycle.ThreadStatus{Name: "thread-1", State: s, Epoch: 1})
}

// running is a node whose partition 0 is served by a store actor with the given behaviour.
func (r *rig) running(receive actor.ReceiveFunc) *actor.PID {
	r.run()
	pid := r.serve(receive)
	r.thread(lifecycle.ThreadRunning)
	r.Node(lifecycle.NodeRunning)
	return pid
}

func (r *rig) serve(receive actor.ReceiveFunc) *actor.PID {
	pid := r.system.Root.Spawn(actor.PropsFromFunc(receive))
	r.Opening("counts", 0, "thread-1", 1)
	r.Serving("counts", 0, pid, 1)
	return pid
}

// answers is a store actor that has every key.
func answers(ctx actor.Context) {
	if _, ok := ctx.Message().(query.Question); ok {
		ctx.Respond(&querypb.Reply{Answer: &querypb.Reply_Value{Value: &querypb.Value{Present: true, Value: []byte("v")}}})
	}
}

// silent is a store actor that takes questions and never answers.
func silent(actor.Context) {}

func about(partition int32) *querypb.About {
	return &querypb.About{Store: "counts", Partition: &partition}
}

func (r *rig) get(a *querypb.About) (*querypb.Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.Ask(ctx, &querypb.Get{About: a, Key: []byte("k")})
}

// fails asks and wants a failure of a kind.
func (r *rig) fails(a *querypb.About, want error) *query.Failure {
	r.t.Helper()
	reply, err := r.get(a)
	var f *query.Failure
	if !errors.Is(err, want) || !errors.As(err, &f) {
		r.t.Fatalf("%v, %v; want %v", reply, err, want)
	}
	return f
}

func (r *rig) noDeadLetters() {
	r.t.Helper()
	if n := r.dead.Load(); n != 0 {
		r.t.Errorf("%d dead letters", n)
	}
}

func TestGateAnswersFromWhatIsPublished(t *testing.T) {
	r := newRig(t, router.Options{Endpoint: "here:1"})
	unknown := about(0)
	unknown.Store = "misspelt"
	r.fails(unknown, query.ErrUnknownStateStore)
	r.fails(about(0), query.ErrStreamThreadNotStarted)
	r.run()
	r.fails(about(0), query.ErrStreamThreadRebalancing)
	r.fails(about(2), query.ErrPartitionNotInStore)

	r.Opening("counts", 0, "thread-1", 1)
	r.Restoring("counts", 0, lifecycle.Progress{Restored: 10, Remaining: 5})
	f := r.fails(about(0), query.ErrStreamThreadRebalancing)
	if f.Progress == nil || f.Progress.Remaining != 5 || f.NodeState != "REBALANCING" || f.ThreadState != "REBALANCING" {
		t.Errorf("%+v", f)
	}

	r.Serving("counts", 0, r.system.Root.Spawn(actor.PropsFromFunc(answers)), 1)
	reply, err := r.get(about(0))
	if err != nil || !reply.GetValue().GetPresent() || reply.Epoch == 0 || reply.Store != "counts" {
		t.Fatalf("%v, %v", reply, err)
	}
	view := about(0)
	view.Epoch = reply.Epoch
	if _, err := r.get(view); err != nil {
		t.Fatal(err)
	}
	r.thread(lifecycle.ThreadRunning)
	r.Node(lifecycle.NodeRunning)
	r.Owners(map[string]map[int32]string{"counts": {1: "there:1", 0: "here:1"}})
	if f := r.fails(about(1), query.ErrInvalidStateStorePartition); f.Owner != "there:1" {
		t.Errorf("owner %q", f.Owner)
	}
	mismatch := about(0)
	mismatch.ValueCodec = "json"
	if f := r.fails(mismatch, query.ErrStateStoreTypeMismatch); f.Detail == "" {
		t.Error("a mismatch that does not say which")
	}

	r.Revoked("counts", 0, "there:1")
	if f := r.fails(view, query.ErrStateStoreMigrated); f.Owner != "there:1" || !errors.Is(f, query.ErrStateStoreClosed) {
		t.Errorf("%+v", f)
	}
	r.Node(lifecycle.NodePendingShutdown)
	r.fails(about(0), query.ErrStreamThreadNotRunning)
	r.fails(view, query.ErrStateStoreNotAvailable)
	r.Node(lifecycle.NodeNotRunning)
	r.fails(about(0), query.ErrStreamThreadNotRunning)
	r.noDeadLetters()
}

// A plain actor program needs nothing but the PID; the answer is a Reply in every state.
func TestPlainRequestFuture(t *testing.T) {
	r := newRig(t, router.Options{})
	pid := r.PID("counts", 0)
	ask := func() *querypb.Reply {
		t.Helper()
		v, err := r.system.Root.RequestFuture(pid, &querypb.Get{Key: []byte("k")}, patience).Result()
		if err != nil {
			t.Fatal(err)
		}
		return v.(*querypb.Reply)
	}
	if k := ask().GetFailure().GetKind(); k != querypb.Kind_KIND_STREAM_THREAD_NOT_STARTED {
		t.Error(k)
	}
	r.running(answers)
	if !ask().GetValue().GetPresent() {
		t.Error("no value")
	}
	r.Node(lifecycle.NodePendingShutdown)
	r.Node(lifecycle.NodeNotRunning)
	if k := ask().GetFailure().GetKind(); k != querypb.Kind_KIND_STREAM_THREAD_NOT_RUNNING {
		t.Error(k)
	}
	v, err := r.system.Root.RequestFuture(pid, "what?", patience).Result()
	if f := v.(*querypb.Reply).GetFailure(); err != nil || f.GetKind() != querypb.Kind_KIND_INVALID_QUERY {
		t.Error(v, err)
	}
	r.noDeadLetters()
}

// A later node of the same application answers at the addresses that were handed out by the one before, even to those
// who have used them: a PID keeps a pointer to the process that it has reached.
func TestLaterNodeTakesTheGatesOver(t *testing.T) {
	r := newRig(t, router.Options{})
	pid := r.PID("counts", 0)
	r.running(answers)
	reply, err := r.get(about(0))
	if err != nil {
		t.Fatal(err)
	}
	first := r.Router
	r.Node(lifecycle.NodePendingShutdown)
	r.Node(lifecycle.NodeNotRunning)
	r.start(router.Options{})
	r.fails(about(0), query.ErrStreamThreadNotStarted)
	first.Node(lifecycle.NodeError) // late news of the earlier node
	first.Opening("counts", 0, "thread-1", 1)
	r.fails(about(0), query.ErrStreamThreadNotStarted)
	r.running(answers)
	v, err := r.system.Root.RequestFuture(pid, &querypb.Get{Key: []byte("k")}, patience).Result()
	if err != nil || !v.(*querypb.Reply).GetValue().GetPresent() {
		t.Fatalf("%v, %v", v, err)
	}
	old := about(0)
	old.Epoch = reply.Epoch
	r.fails(old, query.ErrStateStoreMigrated)
	r.noDeadLetters()
}

// outstanding asks in the background and waits until the gate holds n questions more.
func (r *rig) outstanding(n int, taken <-chan struct{}) <-chan error {
	results := make(chan error, n)
	for range n {
		go func() {
			_, err := r.get(about(0))
			results <- err
		}()
	}
	for range n {
		<-taken
	}
	return results
}

// telling is a store actor that tells of each question and answers none.
func telling(taken chan<- struct{}) actor.ReceiveFunc {
	return func(ctx actor.Context) {
		if _, ok := ctx.Message().(query.Question); ok {
			taken <- struct{}{}
		}
	}
}

func TestOutstandingFailWhenTheLeaseEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*rig)
		want error
	}{
		{"moved", func(r *rig) { r.Revoked("counts", 0, "there:1") }, query.ErrStateStoreMigrated},
		{"restarted", func(r *rig) { r.thread(lifecycle.ThreadRebalancing); r.Revoked("counts", 0, "") }, query.ErrStreamThreadRebalancing},
		{"replayed", func(r *rig) { r.Opening("counts", 0, "thread-1", 2) }, query.ErrStreamThreadRebalancing},
		{"engine failed", func(r *rig) { r.Failed("counts", 0, errors.New("disk")) }, query.ErrStoreFailure},
		{"node failed", func(r *rig) { r.Node(lifecycle.NodePendingError) }, query.ErrStateStoreNotAvailable},
		{"stopped", func(r *rig) { r.Node(lifecycle.NodePendingShutdown); r.Revoked("counts", 0, "") }, query.ErrStateStoreNotAvailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, router.Options{})
			taken := make(chan struct{}, 8)
			r.running(telling(taken))
			results := r.outstanding(8, taken)
			c.end(r)
			for range 8 {
				if err := <-results; !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			}
			r.noDeadLetters()
		})
	}
}

// What is outstanding is not touched by a transition of the thread or node that does not end the lease.
func TestOutstandingOutliveATransition(t *testing.T) {
	r := newRig(t, router.Options{})
	taken, release := make(chan struct{}, 1), make(chan struct{})
	r.running(func(ctx actor.Context) {
		if _, ok := ctx.Message().(query.Question); ok {
			taken <- struct{}{}
			<-release
			answers(ctx)
		}
	})
	results := r.outstanding(1, taken)
	r.thread(lifecycle.ThreadRebalancing)
	r.Node(lifecycle.NodeRebalancing)
	r.Node(lifecycle.NodePendingShutdown)
	close(release)
	if err := <-results; err != nil {
		t.Fatal(err)
	}
}

// The library drops what is in an actor's mailbox when it stops, without a dead letter.
func TestStoreActorStoppedWithQueuedQuestions(t *testing.T) {
	r := newRig(t, router.Options{})
	taken, release := make(chan struct{}, 8), make(chan struct{})
	pid := r.running(func(ctx actor.Context) {
		if _, ok := ctx.Message().(query.Question); ok {
			taken <- struct{}{}
			<-release
		}
	})
	results := make(chan error, 8)
	for range 8 {
		go func() { _, err := r.get(about(0)); results <- err }()
	}
	<-taken
	r.system.Root.Stop(pid)
	close(release)
	for range 8 {
		if err := <-results; !errors.Is(err, query.ErrInvalidStateStore) || errors.Is(err, query.ErrDeadlineExceeded) {
			t.Error(err)
		}
	}
	r.fails(about(0), query.ErrStoreFailure)
}

// A store actor that was dead before it was published.
func TestStoreActorThatIsGone(t *testing.T) {
	r := newRig(t, router.Options{})
	r.run()
	gone := r.system.Root.Spawn(actor.PropsFromFunc(silent))
	if err := r.system.Root.StopFuture(gone).Wait(); err != nil {
		t.Fatal(err)
	}
	r.Opening("counts", 0, "thread-1", 1)
	r.Serving("counts", 0, gone, 1)
	if f := r.fails(about(0), query.ErrStreamThreadRebalancing); f.Retry != query.Here {
		t.Error(f)
	}
}

func TestServingAfterRevokedIsIgnored(t *testing.T) {
	r := newRig(t, router.Options{})
	r.run()
	r.Opening("counts", 0, "thread-1", 1)
	r.Revoked("counts", 0, "there:1")
	r.Serving("counts", 0, r.system.Root.Spawn(actor.PropsFromFunc(answers)), 1)
	r.fails(about(0), query.ErrInvalidStateStorePartition)
}

func TestOverloaded(t *testing.T) {
	r := newRig(t, router.Options{Outstanding: 3})
	taken := make(chan struct{}, 3)
	r.running(telling(taken))
	results := r.outstanding(3, taken)
	if f := r.fails(about(0), query.ErrOverloaded); f.RetryAfter <= 0 {
		t.Error("no advice when to ask again")
	}
	r.Revoked("counts", 0, "there:1")
	for range 3 {
		<-results
	}
}

// The gate itself ends a question whose asker has no clock, and one that names a deadline.
func TestDeadlinePassesAtTheGate(t *testing.T) {
	for _, c := range []struct {
		name string
		opts router.Options
		at   func(*querypb.About)
	}{
		{"the question's", router.Options{}, func(a *querypb.About) { a.DeadlineMs = time.Now().Add(30 * time.Millisecond).UnixMilli() }},
		{"the gate's", router.Options{Wait: 30 * time.Millisecond}, func(*querypb.About) {}},
		{"one that has passed", router.Options{}, func(a *querypb.About) { a.DeadlineMs = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.opts)
			r.running(silent)
			for range 3 {
				a := about(0)
				c.at(a)
				v, err := r.system.Root.RequestFuture(r.PID("counts", 0), &querypb.Get{About: a, Key: []byte("k")}, patience).Result()
				if k := v.(*querypb.Reply).GetFailure().GetKind(); err != nil || k != querypb.Kind_KIND_DEADLINE_EXCEEDED {
					t.Fatal(v, err)
				}
			}
		})
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	r := newRig(t, router.Options{})
	r.running(silent)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := r.Ask(ctx, &querypb.Get{About: about(0), Key: []byte("k")})
	if !errors.Is(err, query.ErrDeadlineExceeded) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestQuestionsAtTheWrongDoor(t *testing.T) {
	r := newRig(t, router.Options{})
	r.running(answers)
	v, err := r.system.Root.RequestFuture(r.PID("counts", 0), &querypb.Get{About: about(1), Key: []byte("k")}, patience).Result()
	if k := v.(*querypb.Reply).GetFailure().GetKind(); err != nil || k != querypb.Kind_KIND_INVALID_QUERY {
		t.Error(v, err)
	}
	r.system.Root.Send(r.PID("counts", 0), &querypb.Get{Key: []byte("k")})
	if r.Dropped() != 1 {
		t.Errorf("%d dropped", r.Dropped())
	}
}

func TestPartitions(t *testing.T) {
	r := newRig(t, router.Options{})
	for _, c := range []struct {
		store string
		node  lifecycle.Node
		want  error
	}{
		{"misspelt", lifecycle.NodeCreated, query.ErrUnknownStateStore},
		{"counts", lifecycle.NodeCreated, query.ErrStreamThreadNotStarted},
		{"counts", lifecycle.NodeRebalancing, query.ErrStreamThreadRebalancing},
		{"counts", lifecycle.NodeRunning, query.ErrMetadataUnavailable},
		{"counts", lifecycle.NodeError, query.ErrStreamThreadNotRunning},
	} {
		r.Node(c.node)
		if n, err := r.Partitions(context.Background(), c.store); n != 0 || !errors.Is(err, c.want) {
			t.Errorf("%s in %s: %d, %v", c.store, c.node, n, err)
		}
	}
	r.SetPartitions("counts", 2)
	if n, err := r.Partitions(context.Background(), "counts"); n != 2 || err != nil {
		t.Error(n, err)
	}
}

// 16 callers while the lease is given, ended, replayed and the store actor stopped, 200 times: each question ends in a
// value or a failure of a kind that fits, none in a time-out.
func TestLeaseFlipsUnderLoad(t *testing.T) {
	r := newRig(t, router.Options{})
	pid := r.running(answers)
	stop := make(chan struct{})
	var values, failures atomic.Int64
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, err := r.get(about(0))
				switch {
				case err == nil:
					values.Add(1)
				case errors.Is(err, query.ErrDeadlineExceeded), !errors.Is(err, query.ErrInvalidStateStore):
					t.Error(err)
					return
				default:
					failures.Add(1)
				}
			}
		})
	}
	for i := range 200 {
		switch i % 4 {
		case 0:
			r.Revoked("counts", 0, "there:1")
			r.system.Root.Stop(pid)
		case 1:
			r.Opening("counts", 0, "thread-1", 1)
			r.Serving("counts", 0, pid, 1)
			continue
		case 2:
			r.system.Root.Stop(pid)
		}
		for range 16 { // let the callers meet this state
			_, _ = r.get(about(0))
		}
		pid = r.serve(answers)
	}
	close(stop)
	callers.Wait()
	if values.Load() == 0 || failures.Load() == 0 {
		t.Errorf("%d values and %d failures: the flips were not exercised", values.Load(), failures.Load())
	}
}

func BenchmarkGetThroughGate(b *testing.B) {
	r := newRig(b, router.Options{})
	r.running(answers)
	ctx := context.Background()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		q := &querypb.Get{About: about(0), Key: []byte("k")}
		for pb.Next() {
			if _, err := r.Ask(ctx, q); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkGetByFuture(b *testing.B) {
	r := newRig(b, router.Options{})
	r.running(answers)
	pid := r.PID("counts", 0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := r.system.Root.RequestFuture(pid, &querypb.Get{Key: []byte("k")}, time.Second).Result(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
