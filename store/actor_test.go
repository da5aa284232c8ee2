package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

var system = sync.OnceValue(func() *actor.ActorSystem { return actors.NewSystem(slog.New(slog.DiscardHandler)) })

// ask gives the reply and the failure in it.
func ask(t *testing.T, pid *actor.PID, q any) (*querypb.Reply, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	answer, err := actors.Ask(ctx, system(), pid, q)
	if err != nil {
		t.Fatalf("%T: %v", q, err)
	}
	reply, ok := answer.(*querypb.Reply)
	if !ok {
		t.Fatalf("%T was answered with %T", q, answer)
	}
	return reply, query.FromReply(reply)
}

func servedState(t *testing.T, n int) (*TaskState, *actor.PID) {
	t.Helper()
	d := openDir(t, vfs.NewMem())
	s, _ := openTask(t, d, testSpec())
	var pairs []string
	for i := range n {
		pairs = append(pairs, fmt.Sprintf("k%05d", i), fmt.Sprint(i))
	}
	apply(t, s, &Unit{Writes: writes(0, pairs...), Position: record.Position{source: 17}})
	pid := system().Root.Spawn(NewActorProps(s, 0))
	t.Cleanup(func() {
		_ = system().Root.StopFuture(pid).Wait()
		closeDir(t, d)
	})
	return s, pid
}

func TestStoreActorAnswersWithAValueAndItsPosition(t *testing.T) {
	_, pid := servedState(t, 3)
	position := []*querypb.Position{{Topic: source.Topic, Partition: source.Partition, Next: 17}}
	about := &querypb.About{Store: "counts", Partition: &source.Partition, Epoch: 5, Kind: "key-value", KeyCodec: "string", ValueCodec: "int64"}
	for name, c := range map[string]struct {
		q    any
		want *querypb.Reply
	}{
		"present": {&querypb.Get{About: about, Key: []byte("k00001")}, &querypb.Reply{Epoch: 5, Answer: &querypb.Reply_Value{Value: &querypb.Value{Present: true, Value: []byte("1")}}}},
		"absent":  {&querypb.Get{Key: []byte("nobody")}, &querypb.Reply{Answer: &querypb.Reply_Value{Value: &querypb.Value{}}}},
		"empty":   {&querypb.Get{Key: []byte{}}, &querypb.Reply{Answer: &querypb.Reply_Value{Value: &querypb.Value{}}}},
		"count":   {&querypb.Count{}, &querypb.Reply{Answer: &querypb.Reply_Count{Count: &querypb.CountReply{Entries: 3}}}},
		"open":    {&querypb.Open{}, &querypb.Reply{Answer: &querypb.Reply_Lease{Lease: &querypb.Lease{Kind: "key-value", KeyCodec: "string", ValueCodec: "int64"}}}},
		"range": {&querypb.Range{From: []byte("k00001"), To: []byte("k00002")}, &querypb.Reply{Answer: &querypb.Reply_Page{
			Page: &querypb.Page{Entries: []*querypb.Entry{{Key: []byte("k00001"), Value: []byte("1")}}}}}},
	} {
		got, err := ask(t, pid, c.q)
		c.want.Store, c.want.Partition, c.want.Position = "counts", 3, position
		if d := cmp.Diff(c.want, got, protocmp.Transform()); d != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
}

func TestStoreActorRefusesMistakesWithTheirKind(t *testing.T) {
	_, pid := servedState(t, 3)
	other := int32(9)
	for name, c := range map[string]struct {
		q    any
		want error
	}{
		"no key":          {&querypb.Get{}, query.ErrInvalidQuery},
		"other store":     {&querypb.Get{About: &querypb.About{Store: "names"}, Key: []byte("a")}, query.ErrInvalidQuery},
		"other partition": {&querypb.Count{About: &querypb.About{Partition: &other}}, query.ErrInvalidQuery},
		"kind":            {&querypb.Open{About: &querypb.About{Kind: "window"}}, query.ErrStateStoreTypeMismatch},
		"key codec":       {&querypb.Open{About: &querypb.About{KeyCodec: "int64"}}, query.ErrStateStoreTypeMismatch},
		"value codec":     {&querypb.Open{About: &querypb.About{ValueCodec: "string"}}, query.ErrStateStoreTypeMismatch},
		"from after to":   {&querypb.Range{From: []byte("b"), To: []byte("a")}, query.ErrInvalidQuery},
		"late":            {&querypb.Get{About: &querypb.About{DeadlineMs: 1}, Key: []byte("a")}, query.ErrDeadlineExceeded},
		"no question":     {&querypb.Page{}, query.ErrInvalidQuery},
	} {
		if _, err := ask(t, pid, c.q); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestPagesOfAScanAreTheScan(t *testing.T) {
	s, pid := servedState(t, 1234)
	for name, q := range map[string]*querypb.Range{
		"all":              {LimitEntries: 100},
		"backwards":        {LimitEntries: 100, Reverse: true},
		"usual pages":      {},
		"one at a time":    {LimitBytes: 1, From: []byte("k00100"), To: []byte("k00120"), ToInclusive: true},
		"one backwards":    {LimitBytes: 1, From: []byte("k00100"), To: []byte("k00120"), Reverse: true},
		"nothing":          {From: []byte("k00100"), To: []byte("k00100")},
		"page is the rest": {LimitEntries: 1234},
	} {
		var want, got []string
		for e, err := range s.scan(0, span{from: q.From, to: q.To, through: q.ToInclusive, reverse: q.Reverse}) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, string(e.Key))
		}
		for more := true; more; {
			reply, err := ask(t, pid, q)
			if err != nil {
				t.Fatal(name, err)
			}
			page := reply.GetPage()
			for _, e := range page.Entries {
				got = append(got, string(e.Key))
				q.Resume = e.Key
			}
			if more = page.More; more && len(page.Entries) == 0 {
				t.Fatal(name, "an empty page that says there is more")
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestQuestionsToAClosedStateAreTypedFailures(t *testing.T) {
	s, pid := servedState(t, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, q := range []any{&querypb.Get{Key: []byte("a")}, &querypb.Range{}, &querypb.Count{}, &querypb.Open{}} {
		if _, err := ask(t, pid, q); !errors.Is(err, query.ErrStateStoreMigrated) || !errors.Is(err, query.ErrStateStoreClosed) {
			t.Errorf("%T: %v", q, err)
		}
	}
}

// Questions meet a Stop from many goroutines: each is answered with a value, a typed failure, or there is no such actor.
func TestStoppingStoreActorLeavesNoQuestionUnanswered(t *testing.T) {
	for range 20 {
		_, pid := servedState(t, 3)
		var wg sync.WaitGroup
		asked := make(chan struct{}, 8)
		for range 8 {
			wg.Go(func() {
				defer func() { asked <- struct{}{} }()
				for i := range 10_000 {
					if i == 5 {
						asked <- struct{}{}
					}
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					answer, err := actors.Ask(ctx, system(), pid, &querypb.Get{Key: []byte("k00001")})
					cancel()
					if errors.Is(err, actors.ErrStopped) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					if err := query.FromReply(answer.(*querypb.Reply)); err != nil && !errors.Is(err, query.ErrStateStoreMigrated) {
						t.Error(err)
					}
				}
			})
		}
		for range 8 {
			<-asked
		}
		system().Root.Stop(pid)
		go func() {
			for range asked {
			}
		}()
		wg.Wait()
		close(asked)
	}
}

func TestRestoreActorRunsAtMostNAndAnswersEveryone(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	gate := &gatedReader{memoryLog: newLog(0, 0), entered: make(chan struct{}, 10), open: make(chan struct{})}
	gate.fill(30, 10)
	pid := system().Root.Spawn(NewRestoreActorProps(gate, 2))
	type done struct {
		i       int
		results []RestoreResult
		err     error
	}
	dones := make(chan done, 10)
	var states []*TaskState
	start := func(i int, epoch uint64) {
		spec := testSpec()
		spec.ID.Partition = int32(i)
		s, _ := openTask(t, d, spec)
		states = append(states, s)
		progress := func(int, lifecycle.Progress) {
			if i == 3 {
				panic("a listener's mistake")
			}
		}
		system().Root.Send(pid, &StartRestore{State: s, Epoch: epoch, Stores: []int{0}, Progress: progress,
			Done: func(r []RestoreResult, err error) { dones <- done{i, r, err} }})
	}
	for i := range 3 {
		start(i, 0)
	}
	<-gate.entered
	<-gate.entered
	system().Root.Send(pid, &CancelRestore{State: states[2]})
	if got := <-dones; got.i != 2 || !errors.Is(got.err, ErrRestoreCancelled) {
		t.Fatalf("%+v: the third must wait, and end when it is cancelled", got)
	}
	close(gate.open)
	for range 2 {
		if got := <-dones; got.err != nil || len(got.results) != 1 || got.results[0].Next != 30 {
			t.Errorf("%+v", got)
		}
	}
	var panicked *PanicError
	start(3, 0)
	if got := <-dones; !errors.As(got.err, &panicked) {
		t.Errorf("%+v", got)
	}
	start(4, 9)
	if got := <-dones; !errors.Is(got.err, ErrLeaseRevoked) {
		t.Errorf("%+v", got)
	}
	_ = system().Root.StopFuture(pid).Wait()
}

// gatedReader stops in Read until it is opened.
type gatedReader struct {
	*memoryLog
	mu      sync.Mutex // protects the log, which counts its reads
	entered chan struct{}
	open    chan struct{}
}

func (g *gatedReader) Read(ctx context.Context, tp record.TopicPartition, from, to int64, committed bool, fn func(broker.Batch) error) error {
	g.entered <- struct{}{}
	select {
	case <-g.open:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.memoryLog.Read(ctx, tp, from, to, committed, fn)
}
