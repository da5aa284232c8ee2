package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// What was in the topic is there when the store is served, what comes later follows, and the next start reads the rest
// only; in memory it reads everything again.
func TestGlobalStoreFollowsItsTopic(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		t.Run(fmt.Sprint("in memory ", inMemory), func(t *testing.T) {
			fs, topic := vfs.NewMem(), newTopic(3)
			topic.put(0, "at", "Austria", "be", "?", "be", "Belgium")
			topic.put(2, "ch", "Switzerland", "xx", "nowhere", "xx", "-", "", "empty key")
			want := rows{"at": "Austria", "be": "Belgium", "ch": "Switzerland", "": "empty key"}
			g := newGlobalRig(t, fs, topic)
			g.spec.Store.InMemory = inMemory
			g.start()
			g.await("opening 1")
			g.await("serving 1")
			if d := cmp.Diff(want, content(t, g.state, 0)); d != "" {
				t.Error("when it is served:", d)
			}
			if g.last.Restored != 7 || g.last.Remaining != 0 {
				t.Errorf("%+v", g.last)
			}
			g.holds(want)
			topic.put(1, "de", "Germany")
			topic.put(0, "at", "-")
			delete(want, "at")
			want["de"] = "Germany"
			g.holds(want)
			g.stop()
			g.await("gone 1 true")
			if topic.lent != 0 {
				t.Error("credit was not given back:", topic.lent)
			}

			topic.put(0, "fr", "France")
			want["fr"] = "France"
			topic.taken = 0
			g = newGlobalRig(t, fs, topic)
			g.spec.Store.InMemory = inMemory
			g.start()
			g.await("serving 1")
			g.holds(want)
			g.stop()
			if all := 3 + 2 + 4 + 1; !inMemory && topic.taken != 1 || inMemory && topic.taken != all {
				t.Error(topic.taken, "records were read")
			}
		})
	}
}

// The copy on disk is kept where the topic completes it, and thrown away as a whole where it cannot.
func TestGlobalStoreDecidesAboutItsCopy(t *testing.T) {
	for _, test := range []struct {
		name string
		// change is what happens while the store is closed; then it holds what the topic does, after reading so many records.
		change func(*memoryTopic, *GlobalSpec)
		later  time.Duration
		reads  int
	}{
		{"nothing new", func(*memoryTopic, *GlobalSpec) {}, 0, 0},
		{"nothing new, for a long time", func(*memoryTopic, *GlobalSpec) {}, 1000 * time.Hour, 0},
		{"a delta", func(mt *memoryTopic, _ *GlobalSpec) { mt.put(1, "new", "1") }, 0, 1},
		{"a delta that may lack deletions", func(mt *memoryTopic, _ *GlobalSpec) { mt.put(1, "new", "1") }, 30 * time.Hour, 21},
		{"one more partition", func(mt *memoryTopic, _ *GlobalSpec) {
			mt.logs = append(mt.logs, newLog(0, 0))
			mt.put(2, "new", "1")
		}, 0, 1},
		{"retention has passed it", func(mt *memoryTopic, _ *GlobalSpec) {
			mt.put(0, "new", "1", "newer", "2")
			mt.logs[0].trim(11)
		}, 0, 11},
		{"fewer records", func(mt *memoryTopic, _ *GlobalSpec) { mt.logs[1] = newLog(0, 0); mt.put(1, "new", "1") }, 0, 11},
		{"another topic of the same name", func(mt *memoryTopic, _ *GlobalSpec) { mt.id = "id2"; mt.put(1, "new", "1") }, 0, 21},
		{"another codec", func(_ *memoryTopic, s *GlobalSpec) { s.Store.ValueCodec = "bytes" }, 0, 20},
		{"another cluster", func(_ *memoryTopic, s *GlobalSpec) { s.ClusterID = "other" }, 0, 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			now, advance := clock(time.Unix(1_700_000_000, 0))
			options := func(o *DirectoryOptions) { o.Now = now }
			fs, topic := vfs.NewMem(), newTopic(2)
			for i := range 20 {
				topic.put(i%2, fmt.Sprint("k", i%7), fmt.Sprint(i))
			}
			g := newGlobalRig(t, fs, topic, options)
			g.start()
			g.await("serving 1")
			g.stop()

			g = newGlobalRig(t, fs, topic, options)
			test.change(topic, &g.spec)
			advance(test.later)
			topic.taken = 0
			g.start()
			g.await("serving 1")
			// Which of two partitions has the last word about a key follows from the order of reading; each key is in one of
			// them if it was written once, so only those are compared where everything is read again.
			g.mu.Lock()
			got := content(t, g.state, 0)
			g.mu.Unlock()
			want := rows{}
			for _, l := range topic.logs {
				for k := range l.replay(t, 0) {
					want[k] = got[k]
				}
			}
			if test.reads != topic.taken || len(want) != len(got) {
				t.Errorf("%d records were read, %v; want %v", topic.taken, got, want)
			}
			for _, key := range []string{"new", "newer"} {
				if _, ok := want[key]; ok && got[key] == "" {
					t.Errorf("%q is missing", key)
				}
			}
			g.stop()
		})
	}
}

// Committed records are waited for up to the last stable offset only: a foreign transaction that is open does not keep the
// node from starting.
func TestGlobalStoreIsServedAtTheLastStableOffset(t *testing.T) {
	topic := newTopic(1)
	topic.put(0, "a", "1", "b", "2", "c", "3")
	topic.stable = 2
	g := newGlobalRig(t, vfs.NewMem(), topic)
	g.start()
	g.await("serving 1")
	g.holds(rows{"a": "1", "b": "2"})
	topic.change(func() { topic.stable = 0 })
	g.holds(rows{"a": "1", "b": "2", "c": "3"})
	g.stop()
}

// What ends an incarnation while the store is served is cured by the next one, and says what it was.
func TestGlobalStoreIsRebuiltBySupervision(t *testing.T) {
	for _, test := range []struct {
		name   string
		break_ func(*memoryTopic)
		cause  error
		want   rows
	}{
		{"recreated", func(mt *memoryTopic) {
			mt.change(func() {
				mt.id, mt.logs[0] = "id2", newLog(0, 0)
				mt.logs[0].put(0, []byte("b"), []byte("2"))
				mt.logs[0].end = 9
			})
		}, ErrTopicRecreated, rows{"b": "2"}},
		{"fewer records", func(mt *memoryTopic) {
			mt.change(func() { mt.logs[0] = newLog(0, 0); mt.logs[0].put(0, []byte("b"), []byte("2")) })
		}, nil, rows{"b": "2"}},
		{"retention", func(mt *memoryTopic) {
			mt.change(func() { mt.logs[0].put(50, []byte("b"), []byte("2")); mt.logs[0].trim(50) })
		}, nil, rows{"b": "2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			topic := newTopic(1)
			topic.put(0, "a", "1", "a", "1", "a", "1")
			g := newGlobalRig(t, vfs.NewMem(), topic)
			g.start()
			g.await("serving 1")
			g.holds(rows{"a": "1"})
			test.break_(topic)
			g.await("gone 1 false")
			g.await("serving 2")
			g.holds(test.want)
			var failed *GlobalError
			if !errors.As(g.cause, &failed) || failed.Epoch != 1 || failed.Store != "countries" || test.cause != nil && !errors.Is(failed, test.cause) {
				t.Error(g.cause)
			}
			if b := (*broker.Error)(nil); test.cause == nil && (!errors.As(failed, &b) || b.Code != broker.CodeOffsetOutOfRange) {
				t.Error(g.cause)
			}
			g.stop()
		})
	}
}

// A record that is refused ends every incarnation, until supervision gives up; a topic that is not there too.
func TestGlobalStoreThatCannotGoOnIsGivenUp(t *testing.T) {
	topic := newTopic(1)
	topic.put(0, "a", "poison")
	g := newGlobalRig(t, vfs.NewMem(), topic)
	g.start()
	g.await("gave up")
	if f := (*GlobalError)(nil); !errors.As(g.cause, &f) || !errors.Is(f, errPoison) || f.Epoch != 4 {
		t.Error(g.cause)
	}
	g.stop()

	g = newGlobalRig(t, vfs.NewMem(), newTopic(0))
	g.start()
	g.await("gave up")
	if !errors.Is(g.cause, ErrTopicMissing) {
		t.Error(g.cause)
	}
	g.stop()
}

// A topic that is gone leaves the store as it is, one that grows is read on, and a topic that is silent is noted to be so.
func TestGlobalStoreLooksAtItsTopic(t *testing.T) {
	now, advance := clock(time.Unix(1_700_000_000, 0))
	var mu sync.Mutex
	topic := newTopic(1)
	topic.put(0, "a", "1")
	g := newGlobalRig(t, vfs.NewMem(), topic, func(o *DirectoryOptions) {
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now() }
	})
	g.start()
	g.await("serving 1")
	topic.change(func() { topic.logs = append(topic.logs, newLog(0, 0)) })
	topic.put(1, "b", "2")
	g.holds(rows{"a": "1", "b": "2"})
	before := g.state.WallClock()
	mu.Lock()
	advance(time.Hour)
	mu.Unlock()
	for range 1000 {
		if g.state.WallClock() > before {
			break
		}
		<-topic.looks
	}
	if g.state.WallClock() == before {
		t.Error("the clock on disk stands still")
	}
	logs := topic.logs
	topic.change(func() { topic.logs = nil })
	for range 3 {
		<-topic.looks
	}
	topic.change(func() { topic.logs = logs })
	topic.put(1, "c", "3")
	g.holds(rows{"a": "1", "b": "2", "c": "3"})
	g.stop()
}

// A crash at any moment leaves what was in the topic up to the offsets on disk, and the next start has the rest.
func TestGlobalStoreAfterACrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		fs, topic := vfs.NewCrashableMem(), newTopic(2)
		model := rows{}
		write := func(n int) {
			for range n {
				p, k := rng.IntN(2), rng.IntN(30)
				key, value := fmt.Sprint(p, "-", k), fmt.Sprint(rng.IntN(1000))
				if rng.IntN(4) == 0 {
					value = "-"
					delete(model, key)
				} else {
					model[key] = value
				}
				topic.put(p, key, value)
			}
		}
		write(rng.IntN(100))
		g := newGlobalRig(t, fs, topic, func(o *DirectoryOptions) { o.FlushInterval = time.Nanosecond })
		g.start()
		g.await("serving 1")
		write(rng.IntN(200))
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
		g.stop()
		write(rng.IntN(20))
		g = newGlobalRig(t, crashed, topic)
		g.start()
		g.await("serving 1")
		g.holds(maps.Clone(model))
		g.stop()
	}
}

func TestGlobalStateIsOfOneStore(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	var wrong *SpecError
	if _, _, err := d.OpenTask(TaskSpec{Global: "g", Stores: []StoreSpec{{Name: "other", Changelog: "t"}}}); !errors.As(err, &wrong) {
		t.Error(err)
	}
	spec := func(name string) TaskSpec {
		return TaskSpec{Global: name, Stores: []StoreSpec{{Name: name, Changelog: "t"}}}
	}
	for _, name := range []string{"gone", "kept", "open", "0_1"} {
		s, report := openTask(t, d, spec(name))
		if report.Reason != Fresh || d.opts.FS.PathBase(d.opts.FS.PathDir(s.Dir())) != "global-"+name {
			t.Error(report)
		}
		if name != "open" {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ids, err := d.Tasks(); len(ids) > 0 || err != nil {
		t.Error(ids, err)
	}
	removed, err := d.CleanGlobals("kept", "0_1")
	if d := cmp.Diff([]string{"gone"}, removed); d != "" || err != nil {
		t.Error(d, err)
	}
}

// A view of the store ends with the incarnation, and a question that waits ends too.
func TestQuestionsToAGlobalStoreThatStops(t *testing.T) {
	topic := newTopic(2)
	topic.put(1, "a", "1")
	g := newGlobalRig(t, vfs.NewMem(), topic)
	g.start()
	g.await("serving 1")
	waits := system().Root.RequestFuture(g.serving, &querypb.Get{Key: []byte("a"), About: &querypb.About{
		AtLeast: []*querypb.Position{{Topic: "countries", Partition: 1, Next: 2}}}}, 20*time.Second)
	g.stop()
	answer, err := waits.Result()
	if reply, ok := answer.(*querypb.Reply); !ok || !errors.Is(query.FromReply(reply), query.ErrStateStoreMigrated) {
		t.Error(answer, err)
	}
}
