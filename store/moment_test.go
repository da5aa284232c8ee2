package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// held lets a test stop the writer at the two places of a commit where it is in doubt.
type held struct{ at, on chan bool }

func hold(s *TaskState) *held {
	h := &held{make(chan bool), make(chan bool)}
	s.onCommit = func(shown bool) {
		h.at <- shown
		<-h.on
	}
	return h
}

// kinds are the sorts of stores, each with a way to name the i-th key at a time.
var kinds = map[string]struct {
	spec func() TaskSpec
	key  func(i int, at int64) []byte
}{
	"key-value":           {testSpec, plainKey},
	"key-value in memory": {memorySpec, plainKey},
	"window":              {func() TaskSpec { return windowSpec(kindWindow) }, timedKey(kindWindow)},
	"session":             {func() TaskSpec { return windowSpec(kindSession) }, timedKey(kindSession)},
	"window in memory": {func() TaskSpec {
		spec := windowSpec(kindWindow)
		spec.Stores[0].InMemory = true
		return spec
	}, timedKey(kindWindow)},
}

func plainKey(i int, _ int64) []byte { return fmt.Appendf(nil, "k%03d", i) }

func timedKey(kind string) func(int, int64) []byte {
	return func(i int, at int64) []byte { return windowKey(kind, fmt.Sprintf("k%03d", i), at) }
}

// contentOf is what a reply to one of the questions of asks says that the store holds.
func contentOf(r *querypb.Reply, keys [][]byte) rows {
	got := rows{}
	put := func(key []byte, v *querypb.Value) {
		if v.Present {
			got[string(key)] = string(v.Value)
		}
	}
	switch a := r.Answer.(type) {
	case *querypb.Reply_Value:
		put(keys[0], a.Value)
	case *querypb.Reply_Values:
		for i, v := range a.Values.Values {
			put(keys[i], v)
		}
	case *querypb.Reply_Page:
		for _, e := range a.Page.Entries {
			got[string(e.Key)] = string(e.Value)
		}
	case *querypb.Reply_Count:
		for i := range a.Count.Entries {
			got[fmt.Sprint("entry ", i)] = ""
		}
	}
	return got
}

// asking is a sort of question, and what of a store's content its answer is.
type asking struct {
	q    any
	want func(rows) rows
}

func everything(r rows) rows { return r }

func askings(keys [][]byte, windowed bool) map[string]asking {
	first := string(keys[0])
	all := map[string]asking{
		"Get": {&querypb.Get{Key: keys[0]}, func(r rows) rows {
			one := rows{}
			if v, ok := r[first]; ok {
				one[first] = v
			}
			return one
		}},
		"GetMany": {&querypb.GetMany{Keys: keys}, func(r rows) rows {
			some := rows{}
			for _, k := range keys {
				if v, ok := r[string(k)]; ok {
					some[string(k)] = v
				}
			}
			return some
		}},
		"Range":           {&querypb.Range{LimitEntries: query.PageEntriesMax}, everything},
		"Range backwards": {&querypb.Range{LimitEntries: query.PageEntriesMax, Reverse: true}, everything},
		"Count": {&querypb.Count{}, func(r rows) rows {
			n := rows{}
			for i := range len(r) {
				n[fmt.Sprint("entry ", i)] = ""
			}
			return n
		}},
	}
	if windowed {
		all["Range of windows"] = asking{&querypb.Range{LimitEntries: query.PageEntriesMax, Windows: &querypb.Windows{}}, everything}
	}
	return all
}

// momentState is one store of a kind with its actor.
func momentState(t *testing.T, spec TaskSpec) (*TaskState, *actor.PID) {
	d := openDir(t, vfs.NewMem())
	s, _ := openTask(t, d, spec)
	pid := system().Root.Spawn(NewActorProps(s, 0))
	t.Cleanup(func() {
		_ = system().Root.StopFuture(pid).Wait()
		closeDir(t, d)
	})
	return s, pid
}

// The writer stands still before the engine shows a commit, and again before its position is published: every read gives
// what was there at the position that it reports.
func TestReadsAreOfTheirPositionInTheMiddleOfACommit(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			s, pid := momentState(t, kind.spec())
			h := hold(s)
			contents := map[int64]rows{0: {}}
			var keys [][]byte
			for i := range 60 {
				keys = append(keys, kind.key(i, 5*minute/2)) // alive after the second commit: one retention and no more
			}
			old := kind.key(999, 0) // dead by then
			compare := func(when string) {
				t.Helper()
				for what, q := range askings(keys, s.spec.Stores[0].windowed()) {
					r, err := ask(t, pid, q.q)
					if err != nil {
						t.Fatal(when, what, err)
					}
					at := nextOf(r)
					if d := cmp.Diff(q.want(contents[at]), contentOf(r, keys)); d != "" {
						t.Errorf("%s, %s at position %d: %s", when, what, at, d)
					}
				}
			}
			for next := int64(1); next <= 3; next++ {
				u := &Unit{Position: record.Position{source: next}}
				contents[next] = rows{}
				for i, k := range keys {
					if i%3 == int(next)%3 && next > 1 {
						u.Writes = append(u.Writes, Write{Key: k, Timestamp: 5 * minute / 2})
						continue
					}
					u.Writes = append(u.Writes, Write{Key: k, Value: fmt.Append(nil, "v", next), Timestamp: 5 * minute / 2})
					contents[next][string(k)] = fmt.Sprint("v", next)
				}
				if next == 1 && s.spec.Stores[0].windowed() {
					u.Writes, contents[1] = []Write{{Key: old, Value: []byte("v")}}, rows{string(old): "v"}
				}
				done := make(chan error)
				go func() { done <- s.Apply(u) }()
				for _, shown := range []bool{false, true} {
					if at := <-h.at; at != shown {
						t.Fatal("the commit is elsewhere")
					}
					compare(fmt.Sprintf("commit %d shown %v", next, shown))
					h.on <- true
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				compare(fmt.Sprintf("after commit %d", next))
			}
		})
	}
}

// nextOf is the position of a reply; 0 if it has none.
func nextOf(r *querypb.Reply) int64 {
	if len(r.Position) == 0 {
		return 0
	}
	return r.Position[0].Next
}

// A position that was reported is not taken back, whatever is asked next, while the writer has not published it.
func TestPositionsDoNotGoBackInTheMiddleOfACommit(t *testing.T) {
	s, pid := momentState(t, testSpec())
	h := hold(s)
	done := make(chan error)
	go func() { done <- s.Apply(&Unit{Writes: writes(0, "k", "v"), Position: record.Position{source: 7}}) }()
	for range 2 {
		<-h.at
		if r, err := ask(t, pid, &querypb.Get{Key: []byte("k")}); err != nil || r.GetValue().Present != (nextOf(r) == 7) {
			t.Fatal(r, err)
		} else if opened, err := ask(t, pid, &querypb.Open{}); err != nil || nextOf(opened) < nextOf(r) {
			t.Fatalf("%v, then %v, %v", r, opened, err)
		}
		h.on <- true
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// What a bulk restore brings is read as of its offset, too.
func TestReadsAreOfTheirOffsetInTheMiddleOfAnIngest(t *testing.T) {
	s, _ := momentState(t, testSpec())
	l := newLog(0, 0)
	l.batch = 5000
	l.fill(bulkOffsetsMin+10_000, 500)
	h := hold(s)
	done := make(chan error)
	go func() {
		_, err := Restore(context.Background(), s, 0, l, nil)
		done <- err
	}()
	for steps := 0; ; steps++ {
		select {
		case err := <-done:
			if err != nil || steps < 2 {
				t.Fatal(err, steps)
			}
			return
		case <-h.at:
		}
		got := rows{}
		v, err := s.walk(0, func(int64) span { return span{} }, func(k, b []byte, _ int64) bool {
			got[string(k)] = string(b)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		part := *l
		part.end = v.marks[0].next
		if d := cmp.Diff(part.replay(t, 0), got); d != "" {
			t.Fatalf("at offset %d: %s", part.end, d)
		}
		h.on <- true
	}
}

// Commits come in the middle of a read, of which each call of its function is one.
func TestReadInTheMiddleOfCommits(t *testing.T) {
	for _, twice := range []bool{false, true} {
		s, _ := momentState(t, testSpec())
		next := int64(0)
		commit := func() {
			next++
			apply(t, s, &Unit{Writes: writes(0, "a", fmt.Sprint(next), "b", fmt.Sprint(next)), Position: record.Position{source: next}})
		}
		commit()
		var a, b string
		calls := 0
		v, err := s.asOf(0, func(r pebble.Reader, v *view) error {
			a = read(t, s, r, "a")
			if calls++; calls == 1 || twice {
				commit()
			}
			b = read(t, s, r, "b")
			return nil
		})
		if err != nil || a != b || a != fmt.Sprint(v.position[source]) || calls != 2 {
			t.Errorf("a is %s and b is %s at %v after %d calls: %v", a, b, v.position, calls, err)
		}
	}
}

// A commit comes between the choice of a page's moment and its first entry.
func TestPageBeginsInTheMiddleOfACommit(t *testing.T) {
	for name, kind := range kinds {
		s, _ := momentState(t, kind.spec())
		next := int64(0)
		commit := func() {
			next++
			apply(t, s, &Unit{Writes: []Write{{Key: kind.key(1, 0), Value: fmt.Append(nil, next)}}, Position: record.Position{source: next}})
		}
		commit()
		var got []string
		v, err := s.walk(0, func(int64) span { commit(); return span{} }, func(_, value []byte, _ int64) bool {
			got = append(got, string(value))
			return true
		})
		if err != nil || len(got) != 1 || got[0] != fmt.Sprint(v.position[source]) {
			t.Errorf("%s: %q at %v: %v", name, got, v.position, err)
		}
	}
}

func read(t *testing.T, s *TaskState, r pebble.Reader, key string) string {
	v, _, ok, err := s.getFrom(r, s.view.Load(), 0, []byte(key))
	if err != nil || !ok {
		t.Fatal(key, ok, err)
	}
	return string(v)
}

// The number of the last commit is kept, so a reopened state knows what it is of.
func TestCommitNumbersGoOnAfterAReopening(t *testing.T) {
	fs := vfs.NewMem()
	for i := range uint64(3) {
		d := openDir(t, fs)
		s, _ := openTask(t, d, testSpec())
		if v := s.view.Load(); v.commit != i {
			t.Errorf("opened at commit %d, want %d", v.commit, i)
		}
		apply(t, s, &Unit{Writes: writes(0, "a", fmt.Sprint(i)), Changelog: []StoreOffset{{0, 1}}})
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		closeDir(t, d)
	}
}

// One writer commits as fast as it can while readers ask: each reply is what a reference held at the position that it
// reports, and no reader sees a position go back.
func TestReadsEqualAReferenceAtTheirPosition(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			s, pid := momentState(t, kind.spec())
			ref := &reference{spec: &s.spec.Stores[0], live: map[string]string{}, held: map[int64]rows{0: {}}}
			var readers sync.WaitGroup
			stop := make(chan struct{})
			for i := range 3 {
				readers.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(i)))
					for last := int64(0); ; {
						select {
						case <-stop:
							return
						default:
							last = ref.ask(t, pid, random, last)
						}
					}
				})
			}
			random := rand.New(rand.NewPCG(2, 0))
			for next := int64(1); (next <= 200 || ref.answered.Load() < 300) && !t.Failed(); next++ {
				apply(t, s, ref.unit(next, kind.key, random))
			}
			close(stop)
			readers.Wait()
		})
	}
}

// reference is what a store held at each position. The mutex protects all of it.
type reference struct {
	spec *StoreSpec

	mu   sync.Mutex
	live rows
	time int64
	keys [][]byte
	held map[int64]rows

	answered atomic.Int64
}

// unit makes the next commit, and notes what the store holds after it before anybody can see it.
func (f *reference) unit(next int64, key func(int, int64) []byte, random *rand.Rand) *Unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := &Unit{Position: record.Position{source: next}}
	changes := map[string]Write{}
	for range 1 + random.IntN(20) {
		at := 3000*next + random.Int64N(minute)
		w := Write{Key: key(random.IntN(60), at/10_000*10_000), Value: fmt.Append(nil, next), Timestamp: at}
		if random.IntN(4) == 0 {
			w.Value = nil
		}
		changes[string(w.Key)] = w
	}
	for _, k := range slices.Sorted(maps.Keys(changes)) {
		w := changes[k]
		u.Writes = append(u.Writes, w)
		f.time = max(f.time, w.Timestamp)
		if f.live[k] = string(w.Value); w.Value == nil {
			delete(f.live, k)
		}
	}
	from := int64(0)
	if f.spec.windowed() {
		from = max(0, f.time-f.spec.Retention.Milliseconds()+1)
	}
	maps.DeleteFunc(f.live, func(k, _ string) bool { return f.spec.expired([]byte(k), from) })
	f.keys = nil
	for _, k := range slices.Sorted(maps.Keys(f.live)) {
		f.keys = append(f.keys, []byte(k))
	}
	f.held[next] = maps.Clone(f.live)
	return u
}

func (f *reference) ask(t *testing.T, pid *actor.PID, random *rand.Rand, last int64) (at int64) {
	f.mu.Lock()
	keys := append(f.keys[:len(f.keys):len(f.keys)], plainOrTimed(f.spec))
	f.mu.Unlock()
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	all := askings(keys, f.spec.windowed())
	what := slices.Sorted(maps.Keys(all))[random.IntN(len(all))]
	r, err := ask(t, pid, all[what].q)
	if errors.Is(err, query.ErrOverloaded) {
		return last // one Count at a time
	}
	if err != nil {
		t.Error(what, err)
		return last
	}
	at = nextOf(r)
	f.mu.Lock()
	want := all[what].want(maps.Clone(f.held[at]))
	f.mu.Unlock()
	if page := r.GetPage(); page.GetMore() { // its time was over
		end, backwards := string(page.Entries[len(page.Entries)-1].Key), what == "Range backwards"
		maps.DeleteFunc(want, func(k, _ string) bool { return backwards && k < end || !backwards && k > end })
	}
	f.answered.Add(1)
	// A count answers beside the actor, so its position may be behind what was answered meanwhile.
	if got := contentOf(r, keys); !maps.Equal(want, got) || at < last && what != "Count" {
		t.Errorf("%s at position %d, after %d: %s", what, at, last, cmp.Diff(want, got))
	}
	return max(at, last)
}

// plainOrTimed is a key that is never written.
func plainOrTimed(s *StoreSpec) []byte {
	if s.windowed() {
		return windowKey(s.Kind, "nobody", 0)
	}
	return []byte("nobody")
}
