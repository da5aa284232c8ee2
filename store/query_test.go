package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

// texts is a handle of "counts" as text, whatever the store's value codec writes.
type texts struct{}

func (texts) StoreName() string               { return "counts" }
func (texts) StoreKind() string               { return "key-value" }
func (texts) KeyCodec() codec.Codec[string]   { return codec.String }
func (texts) ValueCodec() codec.Codec[[]byte] { return textValues }

var textValues codec.Codec[[]byte] = named{codec.Bytes, "int64"}

// served is a router over real store actors: all that is between a typed client and the engine.
type served struct {
	*router.Router
	t      failer
	dir    *Directory
	states []*TaskState
	pids   []*actor.PID
	// handled counts the messages of each partition's actor.
	handled []*atomic.Int64
	// before is called by a store actor with each question before it handles it.
	before atomic.Pointer[func(partition int32, q query.Question)]
	dead   atomic.Int64
}

var names atomic.Int64

// serve opens n partitions and spawns their actors as a node does, under supervision.
func serve(t *testing.T, fs vfs.FS, n int32) *served {
	s, leave := serveSpec(t, fs, n, testSpec())
	t.Cleanup(leave)
	return s
}

// serveSpec is serve for tasks of any kind of store. leave ends it.
func serveSpec(t failer, fs vfs.FS, n int32, spec TaskSpec) (s *served, leave func()) {
	s = &served{t: t, dir: openDir(t, fs)}
	s.Router = router.New(system(), fmt.Sprintf("served-%d", names.Add(1)), router.Options{Endpoint: "here:1"})
	sub := system().EventStream.Subscribe(func(e any) {
		if d, ok := e.(*actor.DeadLetterEvent); ok {
			switch d.Message.(type) {
			case *actor.Stop, *actor.Watch: // leave stops what a test has stopped already
			default:
				s.dead.Add(1)
			}
		}
	})
	counts := spec.Stores[0]
	s.Declare([]router.StoreInfo{{Name: "counts", Kind: counts.Kind, KeyCodec: counts.KeyCodec, ValueCodec: counts.ValueCodec}})
	s.SetPartitions("counts", n)
	s.Node(lifecycle.NodeRebalancing)
	s.Thread(lifecycle.ThreadStatus{Name: "thread-1", State: lifecycle.ThreadRunning})
	for p := range n {
		spec := spec
		spec.ID.Partition, spec.Partition = p, p
		state, _ := openTask(t, s.dir, spec)
		s.states, s.handled = append(s.states, state), append(s.handled, &atomic.Int64{})
		s.pids = append(s.pids, s.spawn(p))
		s.Opening("counts", p, "thread-1", 1)
		s.Serving("counts", p, s.pids[p], 1)
	}
	s.Node(lifecycle.NodeRunning)
	return s, func() {
		system().EventStream.Unsubscribe(sub)
		for _, pid := range s.pids {
			_ = system().Root.StopFuture(pid).Wait()
		}
		if n := s.dead.Load(); n != 0 {
			t.Errorf("%d dead letters", n)
		}
		closeDir(t, s.dir)
	}
}

func (s *served) spawn(p int32) *actor.PID {
	watch := actor.WithReceiverMiddleware(func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, e *actor.MessageEnvelope) {
			if q, ok := e.Message.(query.Question); ok {
				s.handled[p].Add(1)
				if f := s.before.Load(); f != nil {
					(*f)(p, q)
				}
			}
			next(ctx, e)
		}
	})
	closed := query.New(query.StateStoreMigrated, "counts", p)
	closed.Cause = query.ErrStateStoreClosed
	opts := append(actors.Hardened(func(any) any { return query.ToReply(closed) }), watch)
	return system().Root.Spawn(NewActorProps(s.states[p], 0, opts...))
}

// fill puts n entries k00000… into their partitions and moves each position to next.
func (s *served) fill(n int, next int64) (keys []string) {
	units := make([]Unit, len(s.states))
	for p := range units {
		units[p].Position = record.Position{{Topic: "lines", Partition: int32(p)}: next}
	}
	for i := range n {
		key := fmt.Sprintf("k%05d", i)
		keys = append(keys, key)
		u := &units[record.Partition([]byte(key), int32(len(units)))]
		u.Writes = append(u.Writes, writes(0, key, fmt.Sprint(i))...)
	}
	for p := range units {
		apply(s.t, s.states[p], &units[p])
	}
	return keys
}

func (s *served) counts() (total int64, all []int64) {
	for _, n := range s.handled {
		all = append(all, n.Load())
		total += n.Load()
	}
	return total, all
}

// Every read is a message that the store actor handles: none gets past it, and a GetMany is one for each partition.
func TestEveryReadIsAMessageToTheStoreActor(t *testing.T) {
	s := serve(t, vfs.NewMem(), 3)
	keys := s.fill(300, 1)
	ctx := t.Context()
	pages := func(opts ...query.Option) func() error {
		return func() (last error) {
			for _, last = range query.All(ctx, s, texts{}, append(opts, query.PageSize(30, 0))...) {
			}
			return last
		}
	}
	perPage := func() (n int64) { // pages of 30 for each partition's share
		var share [3]int64
		for _, k := range keys {
			share[record.Partition([]byte(k), 3)]++
		}
		for _, k := range share {
			n += (k + 29) / 30
		}
		return n
	}()
	for _, c := range []struct {
		name string
		read func() error
		want int64
		each int64 // messages of each partition, -1 if they differ
	}{
		{"get", func() error { _, _, err := query.Get(ctx, s, texts{}, keys[0]); return err }, 1, -1},
		{"get of an absent key", func() error { _, _, err := query.Get(ctx, s, texts{}, "x"); return err }, 1, -1},
		{"get many", func() error { _, err := query.GetMany(ctx, s, texts{}, keys); return err }, 3, 1},
		{"open", func() error { _, err := query.Open(ctx, s, texts{}); return err }, 3, 1},
		{"count", func() error { _, err := query.Count(ctx, s, texts{}); return err }, 3, 1},
		{"all", pages(), perPage, -1},
		{"reverse", pages(query.Reverse()), perPage, -1},
	} {
		before, allBefore := s.counts()
		if err := c.read(); err != nil {
			t.Fatal(c.name, err)
		}
		after, allAfter := s.counts()
		if after-before != c.want {
			t.Errorf("%s: %d messages, want %d", c.name, after-before, c.want)
		}
		for p := range allAfter {
			if c.each >= 0 && allAfter[p]-allBefore[p] != c.each {
				t.Errorf("%s: %d messages to partition %d", c.name, allAfter[p]-allBefore[p], p)
			}
		}
	}
}

func TestGetManyReadsAllKeysInOrder(t *testing.T) {
	s := serve(t, vfs.NewMem(), 3)
	keys := append(s.fill(500, 1), "absent", "k00007", "")
	results, err := query.GetMany(t.Context(), s, texts{}, keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		want, found := fmt.Sprint(i), i < 500
		if i == 501 {
			want, found = "7", true
		}
		if r.Found != found || (found && string(r.Value) != want) {
			t.Errorf("%q: %v %q", keys[i], r.Found, r.Value)
		}
	}
}

// Values that would make a reply too long come in several, and each holds one at least.
func TestGetManyBoundsItsReply(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, testSpec())
	var keys [][]byte
	for i := range 100 {
		key := fmt.Sprintf("k%02d", i)
		keys = append(keys, []byte(key))
		apply(t, s, &Unit{Writes: writes(0, key, strings.Repeat("v", 100))})
	}
	for _, c := range []struct{ limit, want int }{{1, 1}, {100, 1}, {250, 2}, {9_999, 99}, {10_000, 100}, {1 << 20, 100}} {
		values, _, err := s.getMany(0, keys, c.limit)
		if err != nil || len(values) != c.want {
			t.Errorf("limit %d: %d values, %v; want %d", c.limit, len(values), err, c.want)
		}
		for _, v := range values {
			if !v.Present || len(v.Value) != 100 {
				t.Fatal(v)
			}
		}
	}
}

func source0(next int64) record.Position {
	return record.Position{{Topic: "lines", Partition: 0}: next}
}

// Read your writes: a question waits until the store is at the position, and the reply says at which it is.
func TestAtLeastWaitsForThePosition(t *testing.T) {
	s := serve(t, vfs.NewMem(), 1)
	s.fill(1, 5)
	parked := make(chan struct{}, 1)
	f := func(int32, query.Question) { parked <- struct{}{} }
	s.before.Store(&f)
	type outcome struct {
		found   bool
		err     error
		tracker query.Tracker
	}
	done := make(chan *outcome, 1)
	go func() {
		var o outcome
		_, o.found, o.err = query.Get(t.Context(), s, texts{}, "later", query.AtLeast(source0(9)), query.Track(&o.tracker))
		done <- &o
	}()
	<-parked
	s.before.Store(nil)
	apply(t, s.states[0], &Unit{Writes: writes(0, "sooner", "1"), Position: source0(8)})
	select {
	case o := <-done:
		t.Fatalf("answered at 8: %+v", o.err)
	default:
	}
	apply(t, s.states[0], &Unit{Writes: writes(0, "later", "1"), Position: source0(9)})
	o := <-done
	if !o.found || o.err != nil || o.tracker.Position()[record.TopicPartition{Topic: "lines"}] != 9 {
		t.Fatalf("%v %v %v", o.found, o.err, o.tracker.Position())
	}
	// A position of another partition is another task's.
	if _, _, err := query.Get(t.Context(), s, texts{}, "k", query.AtLeast(record.Position{{Topic: "lines", Partition: 7}: 1000})); err != nil {
		t.Error(err)
	}
}

// The actor is asked without its gate, which answers too when the time is over, and then knows nothing of positions.
func TestAtLeastSaysWhatWasReached(t *testing.T) {
	s := serve(t, vfs.NewMem(), 1)
	s.fill(1, 5)
	_, err := ask(t, s.pids[0], &querypb.Get{Key: []byte("k"), About: &querypb.About{TimeoutMs: 40, AtLeast: query.ToPositions(source0(9))}})
	var f *query.Failure
	if !errors.As(err, &f) || f.Kind != query.DeadlineExceeded || f.Reached[record.TopicPartition{Topic: "lines"}] != 5 || f.Detail == "" {
		t.Fatalf("%+v", err)
	}
}

// Who waits for a position when the store goes away is told at once, and more may not wait than the limit.
func TestWaitersAreBoundedAndRefused(t *testing.T) {
	s := serve(t, vfs.NewMem(), 1)
	s.fill(1, 5)
	entered := make(chan struct{}, query.MaxWaiters+1)
	f := func(int32, query.Question) { entered <- struct{}{} }
	s.before.Store(&f)
	errs := make(chan error, query.MaxWaiters)
	for range query.MaxWaiters {
		go func() {
			_, _, err := query.Get(context.Background(), s, texts{}, "k", query.AtLeast(source0(9)))
			errs <- err
		}()
	}
	for range query.MaxWaiters {
		<-entered
	}
	if _, _, err := query.Get(t.Context(), s, texts{}, "k", query.AtLeast(source0(9))); !errors.Is(err, query.ErrOverloaded) {
		t.Fatal(err)
	}
	s.Revoked("counts", 0, "there:1")
	for range query.MaxWaiters {
		if err := <-errs; !errors.Is(err, query.ErrStateStoreMigrated) {
			t.Fatal(err)
		}
	}
}

// The actor itself refuses its waiters too, when it stops or its state closes under it.
func TestStoppingActorRefusesItsWaiters(t *testing.T) {
	for name, end := range map[string]func(*served){
		"stopped": func(s *served) { system().Root.Stop(s.pids[0]) },
		"closed":  func(s *served) { _ = s.states[0].Close() },
	} {
		s := serve(t, vfs.NewMem(), 1)
		s.fill(3, 5)
		entered, taken := make(chan struct{}, 2), make(chan any, 1)
		f := func(int32, query.Question) { entered <- struct{}{} }
		s.before.Store(&f)
		waits := &querypb.Get{Key: []byte("k"), About: &querypb.About{AtLeast: query.ToPositions(source0(1000))}}
		go func() {
			v, err := actors.Ask(context.Background(), system(), s.pids[0], waits)
			if err != nil {
				t.Error(name, err)
			}
			taken <- v
		}()
		<-entered
		if _, err := ask(t, s.pids[0], &querypb.Open{}); err != nil { // it is answered after the other was put aside
			t.Fatal(err)
		}
		end(s)
		if reply, ok := (<-taken).(*querypb.Reply); !ok || !errors.Is(query.FromReply(reply), query.ErrStateStoreMigrated) {
			t.Errorf("%s: %v", name, reply)
		}
	}
}

// Position is in every reply of the actor, failures included.
func TestFailuresCarryThePosition(t *testing.T) {
	_, pid := servedState(t, 3)
	for name, q := range map[string]any{"mistake": &querypb.Get{}, "late": &querypb.Get{Key: []byte("k"), About: &querypb.About{DeadlineMs: 1}}, "no question": &querypb.Page{}} {
		reply, err := ask(t, pid, q)
		if err == nil || len(reply.Position) != 1 || reply.Position[0].Next != 17 || reply.Store != "counts" {
			t.Errorf("%s: %v", name, reply)
		}
	}
}

func TestApproximateCount(t *testing.T) {
	s := serve(t, vfs.NewMem(), 2)
	s.fill(5000, 1)
	n, err := query.Count(t.Context(), s, texts{}, query.Approximate())
	if err != nil || n < 4000 || n > 6000 {
		t.Errorf("%d, %v", n, err)
	}
	// An estimate is made from disk use; a count that is not given the time to read all has to make one.
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	state, _ := openTask(t, d, testSpec())
	u := &Unit{}
	for i := range 200_000 {
		u.Writes = append(u.Writes, writes(0, fmt.Sprintf("k%07d", i), fmt.Sprintf("%07d", i*7919%200_000))...)
	}
	apply(t, state, u)
	if err := state.Flush(); err != nil {
		t.Fatal(err)
	}
	c := counter{state: state, until: time.Now().Add(time.Minute), approximate: true}
	if err := c.run(); err != nil || !c.estimated || c.entries < 150_000 || c.entries > 250_000 {
		t.Errorf("%d entries, estimated: %v, %v", c.entries, c.estimated, err)
	}
}

// H2: a scan of 10,000 keys that loses its store after 100 fails at the very next step, and never looks like one that has
// ended. The store closes, and no iterator of it is left.
func TestCutScanNeverLooksComplete(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*served)
		want error
	}{
		"revoked": {func(s *served) { s.Revoked("counts", 0, "there:1"); _ = s.states[0].Close() }, query.ErrStateStoreMigrated},
		"stopped": {func(s *served) {
			s.Node(lifecycle.NodePendingShutdown)
			s.Revoked("counts", 0, "")
			_ = s.states[0].Close()
		}, query.ErrStateStoreNotAvailable},
		"crashed": {func(s *served) { _ = system().Root.StopFuture(s.pids[0]).Wait() }, query.ErrStateStoreMigrated},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, vfs.NewMem(), 1)
			s.fill(10_000, 1)
			it := query.Iterate(t.Context(), s, texts{}, query.Everything[string]())
			for i := range 100 {
				if e, err := it.Next(); err != nil || e.Key != fmt.Sprintf("k%05d", i) {
					t.Fatal(e, err)
				}
			}
			c.end(s)
			_, err := it.Next()
			var f *query.Failure
			if name == "crashed" { // the gate's news of the end decides between the two
				if !errors.As(err, &f) || f.Kind == query.DeadlineExceeded || string(f.LastKey) != "k00099" {
					t.Fatalf("%+v", err)
				}
				return
			}
			if !errors.Is(err, c.want) || !errors.As(err, &f) || string(f.LastKey) != "k00099" || !errors.Is(err, query.ErrStateStoreClosed) {
				t.Fatalf("%+v", err)
			}
		})
	}
}

// A walk looks at the lease before each entry, as RocksDBIterator.hasNext does in the draft: whoever closes the state does
// not wait for its end, and it does not look like one that has reached it.
func TestWalkEndsWhenTheStateCloses(t *testing.T) {
	s, _ := servedState(t, 100)
	seen := 0
	_, err := s.walk(0, func(int64) span { return span{} }, func(_, _ []byte, _ int64) bool {
		if seen++; seen == 10 {
			s.engine.lease.end()
		}
		return true
	})
	if !errors.Is(err, ErrStateStoreClosed) || seen != 10 {
		t.Fatalf("%v after %d", err, seen)
	}
	u := &Unit{Writes: writes(0, "k", "v")}
	if err := s.Apply(u); !errors.Is(err, ErrStateStoreClosed) {
		t.Fatal(err)
	}
	if _, _, err := s.getMany(0, [][]byte{[]byte("k")}, 100); !errors.Is(err, ErrStateStoreClosed) {
		t.Fatal(err)
	}
	if err := s.finish(false); err != nil { // the lease was ended behind Close's back
		t.Fatal(err)
	}
}

// H12: null, empty and absent are three things, after a restore too.
func TestNullEmptyAndAbsentAreThreeThings(t *testing.T) {
	s := serve(t, vfs.NewMem(), 4) // partition 3 has the changelog of the tests
	l := newLog(0, 0)
	for i, r := range []struct{ key, value []byte }{
		{[]byte("a"), []byte("1")}, {[]byte("b"), []byte("2")}, {[]byte("a"), nil}, {[]byte("b"), []byte{}}, {[]byte("c"), nil}, {[]byte{}, []byte("e")},
	} {
		l.put(int64(i), r.key, r.value)
	}
	if _, err := Restore(t.Context(), s.states[3], 0, l, nil); err != nil {
		t.Fatal(err)
	}
	in3 := query.Partition(3)
	for key, want := range map[string][]byte{"a": nil, "b": {}, "c": nil, "": []byte("e")} {
		value, found, err := query.Get(t.Context(), s, texts{}, key, in3)
		if err != nil || found != (want != nil) || (found && (value == nil || string(value) != string(want))) {
			t.Errorf("%q: %#v %v %v", key, value, found, err)
		}
	}
	results, err := query.GetMany(t.Context(), s, texts{}, []string{"a", "b", "c"}, in3)
	if err != nil || results[0].Found || !results[1].Found || results[1].Value == nil || len(results[1].Value) != 0 || results[2].Found {
		t.Errorf("%+v %v", results, err)
	}
	var got []string
	for e, err := range query.All(t.Context(), s, texts{}, in3) {
		if err != nil || e.Value == nil {
			t.Fatal(e, err)
		}
		got = append(got, e.Key)
	}
	if diff := cmp.Diff([]string{"", "b"}, got); diff != "" {
		t.Error(diff)
	}
}

// A store actor that dies of a panic outside its own care answers the question that killed it, and the next ones.
func TestPanickingStoreActorAnswers(t *testing.T) {
	s := serve(t, vfs.NewMem(), 1)
	s.fill(3, 1)
	var panicked atomic.Int64
	f := func(_ int32, q query.Question) {
		if g, ok := q.(*querypb.Get); ok && string(g.Key) == "boom" {
			panicked.Add(1)
			panic("a library's mistake")
		}
	}
	s.before.Store(&f)
	for range 3 {
		if _, _, err := query.Get(t.Context(), s, texts{}, "boom"); !errors.Is(err, query.ErrStateStoreMigrated) {
			t.Fatal(err)
		}
		if _, found, err := query.Get(t.Context(), s, texts{}, "k00001"); !found || err != nil {
			t.Fatal(found, err)
		}
	}
	if panicked.Load() != 3 {
		t.Fatalf("%d panics", panicked.Load())
	}
}

// A disk that does not answer holds up the store, and no asker longer than its deadline.
func TestStuckDiskEndsInTheDeadline(t *testing.T) {
	var stuck atomic.Bool
	release, met := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if stuck.Load() && (op.Kind == errorfs.OpFileReadAt || op.Kind == errorfs.OpFileRead) {
			once.Do(func() { close(met) })
			<-release
		}
		return nil
	}))
	s := serve(t, fs, 1)
	s.fill(20_000, 1)
	if err := s.states[0].Flush(); err != nil {
		t.Fatal(err)
	}
	stuck.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var last error
	for i := 0; last == nil && i < 20_000; i += 100 { // until a read needs a block that is not in memory
		_, _, last = query.Get(ctx, s, texts{}, fmt.Sprintf("k%05d", i))
	}
	deadline, _ := ctx.Deadline()
	late := time.Since(deadline)
	select {
	case <-met:
	default:
		t.Fatal("no read has met the disk: this test sees nothing")
	}
	if !errors.Is(last, query.ErrDeadlineExceeded) || late > 2*time.Second {
		t.Errorf("%v, %v after the deadline", last, late)
	}
	stuck.Store(false)
	close(release)
	if _, _, err := query.Get(t.Context(), s, texts{}, "k00000"); err != nil {
		t.Error("it does not recover:", err)
	}
}
