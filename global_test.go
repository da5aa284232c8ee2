package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/topology"
)

// touchy is the codec of texts that cannot be read: "unreadable" never, "mangled" never and with a panic, and "slip" the
// first time that it is read by each of them.
type touchy struct {
	codec.Codec[string]
	slipped *sync.Once
}

func newTouchy() touchy { return touchy{codec.String, &sync.Once{}} }

func (c touchy) Decode(b []byte) (string, error) {
	switch s := string(b); s {
	case "unreadable":
		return "", errTouchy
	case "mangled":
		panic(errTouchy)
	case "slip":
		err := error(nil)
		c.slipped.Do(func() { err = errTouchy })
		return s, err
	default:
		return s, nil
	}
}

var (
	errTouchy = errors.New("the codec is touchy")
	last      = topology.NewKeyValueStore("last", codec.String, codec.String)
)

func newCountries() topology.GlobalStore[string, string] {
	return topology.NewGlobalStore("countries", topology.NewTopic("countries", codec.String, newTouchy()))
}

// travels keeps, for each person of the lines, the country that the code in the line stands for: "?" if there is none.
func travels(t testing.TB, countries topology.GlobalStore[string, string], change ...func(*topology.Builder)) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	code := func(r record.Record[string, string]) (string, bool) { return r.Value, true }
	named := topology.LeftJoinGlobal(topology.From(b, lines), countries, code, func(_ record.Record[string, string], country string, found bool) (string, error) {
		if !found {
			return "?", nil
		}
		return country, nil
	})
	topology.Reduce(named, last, func(_, country string) (string, error) { return country, nil })
	for _, f := range change {
		f(b)
	}
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// atlas is a cluster with a topic of countries, in three partitions, and what was written to it.
type atlas struct {
	t    testing.TB
	c    *embedded.Cluster
	w    *writer
	next record.Position
	all  map[string]string
}

func newAtlas(t testing.TB, policy ...string) *atlas {
	t.Helper()
	c := cluster(t)
	policy = append(policy, "compact")
	if err := c.Kfake().CreateTopic("countries", 3, map[string]string{"cleanup.policy": policy[0]}); err != nil {
		t.Fatal(err)
	}
	return &atlas{t, c, newWriter(t, c, ""), record.Position{}, map[string]string{}}
}

func country(code string) record.TopicPartition {
	return record.TopicPartition{Topic: "countries", Partition: record.Partition([]byte(code), 3)}
}

// put writes pairs of code and name; a name of "-" deletes.
func (a *atlas) put(pairs ...string) {
	a.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		r := record.Raw{Key: []byte(pairs[i]), Value: []byte(pairs[i+1]), Timestamp: int64(i + 1)}
		a.all[pairs[i]] = pairs[i+1]
		if pairs[i+1] == "-" {
			r.Value = nil
			delete(a.all, pairs[i])
		}
		a.w.put(country(pairs[i]), r)
		a.next[country(pairs[i])]++
	}
	a.w.flush()
}

// travel writes a line for a person.
func (a *atlas) travel(person, code string) {
	a.t.Helper()
	tp := record.TopicPartition{Topic: "lines", Partition: record.Partition([]byte(person), 4)}
	a.w.put(tp, record.Raw{Key: []byte(person), Value: []byte(code), Timestamp: 1})
	a.w.flush()
}

// holds waits until the client's store has what was written, and compares all of it.
func (a *atlas) holds(c query.Client) {
	a.t.Helper()
	got := map[string]string{}
	for e, err := range query.All(a.t.Context(), c, newCountries(), query.AtLeast(a.next)) {
		if err != nil {
			a.t.Fatal(err)
		}
		got[e.Key] = e.Value
	}
	if d := cmp.Diff(a.all, got); d != "" {
		a.t.Error(d)
	}
}

// where is the country that a person was seen in last.
func where(t testing.TB, n *running, person string) string {
	t.Helper()
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	name, _, err := query.Get(t.Context(), n.Node, last, person)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func (a *atlas) start(topo *topology.Topology, opts ...millrace.Option) *running {
	a.t.Helper()
	return start(a.t, topo, append([]millrace.Option{millrace.WithBrokers(a.c.Addrs()...), millrace.WithStateDir(a.t.TempDir())}, opts...)...)
}

// A node reads the whole topic before its threads start, so that the first join has the whole table; until then its store
// says how far it is. What is written later is seen by joins and queries.
func TestGlobalStoreIsBootstrappedFirst(t *testing.T) {
	for _, guarantee := range []millrace.Guarantee{millrace.ExactlyOnce, millrace.AtLeastOnce} {
		t.Run(guarantee.String(), func(t *testing.T) {
			a := newAtlas(t)
			for i := range 300 {
				a.put(fmt.Sprint("c", i), fmt.Sprint("country ", i))
			}
			for i := range 20 {
				a.travel(fmt.Sprint("p", i), fmt.Sprint("c", i))
			}
			s := &stage{t: t, ctx: t.Context(), c: a.c}
			held := s.shut(kmsg.Fetch, func(r kmsg.Request) bool {
				return slices.ContainsFunc(r.(*kmsg.FetchRequest).Topics, func(topic kmsg.FetchRequestTopic) bool { return topic.Topic == "countries" })
			})
			n, err := millrace.New("app", travels(t, newCountries()), millrace.WithBrokers(a.c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithGuarantee(guarantee))
			if err != nil {
				t.Fatal(err)
			}
			r := &running{n, t, make(chan error, 1)}
			go func() { r.done <- n.Run(context.Background()) }()
			defer r.stop()
			defer held.open()
			held.await(s)
			_, _, err = query.Get(t.Context(), n, newCountries(), "c1")
			var f *query.Failure
			if !errors.As(err, &f) || f.Kind != query.StreamThreadRebalancing || f.ThreadState != "REBALANCING" {
				t.Error(err)
			}
			await(t.Context(), t, func() bool {
				restores, err := query.Restores(t.Context(), n, "countries")
				return err == nil && len(restores) == 1 && restores[0].Progress.Remaining > 0
			}, func() string { return fmt.Sprint(query.Restores(t.Context(), n, "countries")) })
			if threads := n.Threads(); len(threads) != 1 || threads[0].Name != "global-countries" || n.State() != lifecycle.NodeRebalancing {
				t.Error("threads have started:", threads, n.State())
			}
			held.open()
			if err := n.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			if threads := n.Threads(); len(threads) != 3 || threads[2].State != lifecycle.ThreadRunning {
				t.Error(threads)
			}
			for i := range 20 {
				if got := where(t, r, fmt.Sprint("p", i)); got != fmt.Sprint("country ", i) {
					t.Errorf("p%d is in %q", i, got)
				}
			}
			a.holds(n)
			a.put("c1", "another name", "c2", "-", "c300", "a new one")
			a.holds(n)
			for code, want := range map[string]string{"c1": "another name", "c2": "?", "c300": "a new one"} {
				a.travel("ann", code)
				if got := where(t, r, "ann"); got != want {
					t.Errorf("%s is %q, want %q", code, got, want)
				}
			}
		})
	}
}

// The next start reads the records behind the offsets on disk and no others; in memory it reads all.
func TestGlobalStoreGoesOnFromItsOffsets(t *testing.T) {
	a, dir := newAtlas(t), t.TempDir()
	a.put("at", "Austria", "be", "Belgium", "ch", "Switzerland", "de", "Germany", "xx", "nowhere")
	n := a.start(travels(t, newCountries()), millrace.WithStateDir(dir))
	a.holds(n)
	if got := n.GlobalStores()[0]; got.Records != 5 || got.Store != "countries" || got.Topic != "countries" || !maps.Equal(got.Position, a.next) {
		t.Errorf("%+v, want position %v", got, a.next)
	}
	n.stop()
	a.put("fr", "France", "xx", "-")
	n = a.start(travels(t, newCountries()), millrace.WithStateDir(dir))
	a.holds(n)
	if got := n.GlobalStores()[0]; got.Records != 2 {
		t.Error(got.Records, "records were read at the second start")
	}
	n.stop()
	for range 2 {
		n = a.start(travels(t, newCountries().InMemory()), millrace.WithStateDir(dir))
		a.holds(n)
		if got := n.GlobalStores()[0]; got.Records != 7 {
			t.Error(got.Records, "records were read into memory")
		}
		n.stop()
	}
}

// Each of two nodes has every key, whatever tasks it has, and answers for all of them by itself.
func TestGlobalStoreIsOnEveryNode(t *testing.T) {
	a := newAtlas(t)
	a.put("at", "Austria", "be", "Belgium", "ch", "Switzerland")
	one := a.start(travels(t, newCountries()), millrace.WithThreads(1))
	two := a.start(travels(t, newCountries()), millrace.WithThreads(1))
	settled := func() bool { return len(one.Owned()) == 2 && len(two.Owned()) == 2 }
	await(t.Context(), t, settled, func() string { return fmt.Sprint(one.Owned(), two.Owned()) })
	a.put("de", "Germany", "be", "-")
	a.holds(one)
	a.holds(two)
	for i := range 8 {
		a.travel(fmt.Sprint("p", i), "de")
	}
	if err := two.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodes := query.Nodes(map[string]query.Client{"one": one.Node, "two": two.Node}, nil)
	for i := range 8 {
		if got, _, err := query.Get(t.Context(), nodes, last, fmt.Sprint("p", i)); got != "Germany" || err != nil {
			t.Error(i, got, err)
		}
	}
	one.stop()
	a.holds(two)
	a.holds(nodes)
}

// Exactly once a global store has what was committed; at least once it reads on past what is open, as Kafka Streams does.
func TestGlobalStoreLeavesOutWhatWasAborted(t *testing.T) {
	a := newAtlas(t)
	a.put("at", "Austria")
	other := newWriter(t, a.c, "somebody")
	other.put(country("at"), record.Raw{Key: []byte("at"), Value: []byte("Atlantis"), Timestamp: 1})
	other.put(country("xx"), record.Raw{Key: []byte("xx"), Value: []byte("Xanadu"), Timestamp: 1})
	other.flush()
	other.abort()
	a.next[country("at")] += 2 // the marker too
	for _, dirty := range []bool{false, true} {
		guarantee := millrace.ExactlyOnce
		if dirty {
			guarantee = millrace.AtLeastOnce
			a.all["at"], a.all["xx"] = "Atlantis", "Xanadu"
		}
		n := a.start(travels(t, newCountries()), millrace.WithGuarantee(guarantee))
		a.holds(n)
		n.stop()
	}
}

// What a query says of a global store, in the typed client, by PID, over HTTP and in the lists.
func TestGlobalStoreIsAskedLikeAnyOther(t *testing.T) {
	a := newAtlas(t)
	a.put("at", "Austria", "be", "Belgium")
	n := a.start(travels(t, newCountries()), millrace.WithEndpoint("here:1"))
	ctx := t.Context()
	results, err := query.GetMany(ctx, n.Node, newCountries(), []string{"be", "xx", "at"})
	if err != nil || results[0].Value != "Belgium" || results[1].Found || results[2].Value != "Austria" {
		t.Error(results, err)
	}
	if count, err := query.Count(ctx, n.Node, newCountries()); count != 2 || err != nil {
		t.Error(count, err)
	}
	var keys []string
	for e, err := range query.Range(ctx, n.Node, newCountries(), "a", "az") {
		keys = append(keys, fmt.Sprint(e.Key, err))
	}
	if d := cmp.Diff([]string{"at<nil>"}, keys); d != "" {
		t.Error(d)
	}
	l, err := query.Locate(ctx, n.Node, newCountries(), "any")
	if err != nil || !l.Here || l.Owner != "here:1" || l.Thread != "RUNNING" || l.Partition != 0 {
		t.Errorf("%+v %v", l, err)
	}
	stores, err := query.Stores(ctx, n.Node)
	if err != nil || len(stores) != 2 || !stores[0].Global || stores[0].Name != "countries" || stores[0].Partitions != 1 || stores[1].Global {
		t.Errorf("%+v %v", stores, err)
	}
	for partition, want := range map[int32]query.Kind{0: 0, 1: query.PartitionNotInStore} {
		answer, err := n.ActorSystem().Root.RequestFuture(n.StorePID("countries", partition), &querypb.Get{Key: []byte("at")}, time.Minute).Result()
		if err != nil {
			t.Fatal(err)
		}
		f := (*query.Failure)(nil)
		if err := query.FromReply(answer.(*querypb.Reply)); want == 0 && err != nil || want != 0 && (!errors.As(err, &f) || f.Kind != want) {
			t.Error(partition, err)
		}
	}
	asked := topology.NewKeyValueStore("countries", codec.String, codec.Int64)
	if _, _, err := query.Get(ctx, n.Node, asked, "at"); !errors.Is(err, query.ErrStateStoreTypeMismatch) {
		t.Error(err)
	}
	server := httptest.NewServer(n.Handler())
	defer server.Close()
	for path, want := range map[string]string{
		"/stores":                   `"global":true`,
		"/stores/countries/keys/be": `"value":"Belgium"`,
		"/owners/countries/keys/be": `"here":true`,
	} {
		r, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != 200 || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s %v", path, r.StatusCode, body, err)
		}
	}
}

// An engine that fails for good under a global store ends its thread; the next incarnation reads the topic into another
// directory. A thread that joins meanwhile waits for it, and misses nothing.
func TestFailedEngineOfAGlobalStoreIsReplaced(t *testing.T) {
	a := newAtlas(t)
	a.put("at", "Austria", "be", "Belgium")
	disk := newFailingDisk(tablesOf("global-countries"))
	n := a.start(travels(t, newCountries()), disk.option(20*time.Millisecond))
	a.holds(n)
	disk.fails.Store(true)
	a.put("ch", "Switzerland")
	global := func() lifecycle.ThreadStatus {
		threads := n.Threads()
		return threads[len(threads)-1]
	}
	// The next incarnation may run already, and then there is no cause any more: the disk is still broken, so one comes again.
	await(t.Context(), t, func() bool {
		e, status := (*store.EngineError)(nil), global()
		return status.Epoch > 1 && errors.As(status.Cause, &e)
	}, func() string { return fmt.Sprint(n.Threads(), disk.refused.Load()) })
	a.travel("ann", "ch")
	disk.fails.Store(false)
	if err := n.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := where(t, n, "ann"); got != "Switzerland" || disk.refused.Load() == 0 {
		t.Error(got, disk.refused.Load())
	}
	a.holds(n)
	for _, s := range n.Threads()[:2] {
		if s.Epoch != 1 {
			t.Error("a stream thread has failed too:", s)
		}
	}
}

// Records that cannot be read are the deserialization handler's, and counted; so are those without a key. Without a handler
// they end the node, with their place.
func TestGlobalStoreThatCannotReadARecord(t *testing.T) {
	a := newAtlas(t, "delete")
	a.put("at", "Austria", "xx", "unreadable", "yy", "mangled")
	a.w.put(country("at"), record.Raw{Value: []byte("no key"), Timestamp: 1})
	a.w.flush()
	var asked atomic.Int64
	n := a.start(travels(t, newCountries(), func(b *topology.Builder) {
		b.OnDeserializationError(func(c topology.ErrorContext, err error) topology.Response {
			asked.Add(1)
			if e := (*millrace.GlobalRecordError)(nil); !errors.As(err, &e) || e.Source != c.Source || c.Node != "countries" || !errors.Is(err, errTouchy) {
				t.Error(c, err)
			}
			return []topology.Response{topology.Skip, topology.DeadLetter}[asked.Load()%2]
		})
		b.DeadLetterTopic("word-counts")
	}))
	delete(a.all, "xx")
	delete(a.all, "yy")
	a.holds(n)
	if got := n.GlobalStores()[0]; !maps.Equal(got.Skipped, map[string]int64{"null key": 1, "deserialization": 2}) || got.Records != 4 {
		t.Errorf("%+v", got)
	}
	n.stop()

	var failures []millrace.Failure
	m, err := millrace.New("app", travels(t, newCountries()), millrace.WithBrokers(a.c.Addrs()...), millrace.WithStateDir(t.TempDir()),
		millrace.WithUncaughtHandler(func(f millrace.Failure) millrace.Answer {
			failures = append(failures, f)
			return millrace.ShutdownNode
		}))
	if err != nil {
		t.Fatal(err)
	}
	err = m.Run(t.Context())
	var e *millrace.GlobalRecordError
	if !errors.As(err, &e) || !errors.Is(err, errTouchy) || m.State() != lifecycle.NodeError || len(failures) != 1 ||
		failures[0].Thread != "global-countries" || failures[0].Source != e.Source || failures[0].Epoch != 1 {
		t.Errorf("%v, %+v", err, failures)
	}
	if _, _, err := query.Get(t.Context(), m, newCountries(), "at"); !errors.Is(err, query.ErrStreamThreadNotRunning) {
		t.Error(err)
	}
}

// A topic that is deleted and created again is another one: the store is rebuilt from it, while the node goes on.
func TestGlobalStoreFollowsARecreatedTopic(t *testing.T) {
	a := newAtlas(t)
	a.put("at", "Austria", "be", "Belgium", "be", "Belgique")
	n := a.start(travels(t, newCountries()), millrace.WithMetadataRefresh(10*time.Millisecond))
	a.holds(n)
	if err := a.c.Kfake().DeleteTopic("countries"); err != nil {
		t.Fatal(err)
	}
	if err := a.c.Kfake().CreateTopic("countries", 3, nil); err != nil {
		t.Fatal(err)
	}
	again := &atlas{t, a.c, newWriter(t, a.c, ""), record.Position{}, map[string]string{}}
	again.put("ch", "Switzerland")
	last := func() lifecycle.ThreadStatus { threads := n.Threads(); return threads[len(threads)-1] }
	await(t.Context(), t, func() bool { // until it has looked, the incarnation of before may read on in the new topic
		v, _, err := query.Get(t.Context(), n.Node, newCountries(), "ch")
		return last().Epoch > 1 && err == nil && v == "Switzerland"
	}, func() string { return fmt.Sprint(n.Threads()) })
	again.holds(n)
	if last := last(); !errors.Is(last.Cause, store.ErrTopicRecreated) && last.Cause != nil {
		t.Error(last)
	}
	if err := n.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	again.travel("ann", "ch")
	if got := where(t, n, "ann"); got != "Switzerland" {
		t.Error(got)
	}
}

func TestGlobalStoreWithoutItsTopic(t *testing.T) {
	c := cluster(t)
	n, err := millrace.New("app", travels(t, newCountries()), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	var missing *millrace.MissingTopicError
	if err := n.Run(t.Context()); !errors.As(err, &missing) || missing.Topic != "countries" || missing.Use != "reads" {
		t.Fatal(err)
	}
}
