package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/exposition"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/remote"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// series are the node's own, each with its labels.
func (f figures) series() map[string]bool {
	all := map[string]bool{}
	for name, family := range f {
		if !strings.HasPrefix(name, "millrace_") {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			all[name+fmt.Sprint(labels)] = true
		}
	}
	return all
}

// hostile are names that a caller may make up: another one for each number.
func hostile(i int) []string {
	return []string{fmt.Sprint("none", i), fmt.Sprintf("quote\"%d\\", i), fmt.Sprintf("line\n%d} 1\n# HELP", i), fmt.Sprintf("\xff\xfe%d", i), fmt.Sprintf("%249d", i)}
}

// flooded is a node that a flood comes over, and what the flood needs.
type flooded struct {
	*running
	t      *testing.T
	c      *embedded.Cluster
	client *remote.Client
}

// questions ask for what there is not, in every way that there is.
func (n *flooded) questions(ctx context.Context, i int) {
	for _, name := range hostile(i) {
		p := int32(i)
		if _, err := n.Ask(ctx, &querypb.Get{About: &querypb.About{Store: name, Partition: &p}, Key: []byte("k")}); !errors.Is(err, query.ErrUnknownStateStore) {
			n.t.Errorf("%q: %v", name, err)
		}
		if _, err := n.Partitions(ctx, name); err == nil {
			n.t.Errorf("there is a store %q", name)
		}
		if _, _, err := query.Get(ctx, n.client, topology.NewKeyValueStore(name, codec.String, codec.Int64), "k", query.Partition(p)); err == nil {
			n.t.Errorf("there is a store %q for others", name)
		}
		w := httptest.NewRecorder()
		n.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/stores/"+url.PathEscape(name)+"/keys/k", nil))
		if w.Code != http.StatusNotFound {
			n.t.Errorf("%q: %d %s", name, w.Code, w.Body)
		}
	}
	for _, p := range []int32{4 + int32(i), -1 - int32(i), 1<<30 + int32(i)} {
		if _, err := n.Ask(ctx, &querypb.Get{About: &querypb.About{Store: "counts", Partition: &p}, Key: []byte("k")}); err == nil {
			n.t.Errorf("there is a partition %d", p)
		}
	}
	for _, name := range []string{"counts", "countries"} {
		if _, err := n.Ask(ctx, &querypb.Get{About: &querypb.About{Store: name, Partition: new(int32)}, Key: fmt.Append(nil, "key", i)}); err != nil {
			n.t.Error(err)
		}
	}
}

// settled waits until the node has everything again, and all of it is restored.
func (n *flooded) settled(ctx context.Context) {
	whole := func() bool { return n.OwnsAll() && n.State() == lifecycle.NodeRunning }
	await(ctx, n.t, whole, func() string { return fmt.Sprint(n.Owned(), n.Threads()) })
	if err := n.Drain(ctx); err != nil {
		n.t.Fatal(err)
	}
}

// moves has partitions and threads come and go, and incarnations fail, each for another cause.
func (n *flooded) moves(ctx context.Context, other *topology.Topology, i int) {
	n.t.Helper()
	feed(n.t, n.c, fmt.Sprint("fail ", hostile(i)))
	n.settled(ctx)
	name, err := n.AddThread()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := errors.Join(n.Ready(ctx), n.RemoveThread(ctx, name)); err != nil {
		n.t.Fatal(err)
	}
	guest := start(n.t, other, onto(n.t, n.c)...)
	await(ctx, n.t, func() bool { return len(guest.Owned()) > 0 && len(n.Owned()) < 8 }, func() string { return fmt.Sprint(guest.Owned()) })
	guest.stop()
	n.settled(ctx)
}

// No name, number or cause that somebody makes up is a label, and what comes and goes leaves no series behind: after a flood
// there are the same series as before it, and Prometheus can read them.
func TestSeriesAreBounded(t *testing.T) {
	c := cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var mu sync.Mutex
	failed := map[string]bool{}
	topo := tallied(t, func(line string) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(line, "fail") && !failed[line] {
			failed[line] = true
			return errors.New(line)
		}
		return nil
	})
	if err := c.Kfake().CreateTopic("countries", 1, nil); err != nil {
		t.Fatal(err)
	}
	w := newWriter(t, c, "")
	for i := range 100 {
		w.put(record.TopicPartition{Topic: "lines", Partition: int32(i % 4)}, record.Raw{Key: fmt.Append(nil, i), Value: []byte("x"), Timestamp: 1})
	}
	w.flush()
	first := start(t, topo, onto(t, c)...) // it leaves something to restore
	if err := first.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	first.stop()
	shown, err := exposition.New()
	if err != nil {
		t.Fatal(err)
	}
	n := &flooded{t: t, c: c, running: start(t, topo, onto(t, c, millrace.WithMeterProvider(shown), millrace.WithRemote("127.0.0.1:0"),
		millrace.WithRestarts(actors.Intensity{Max: 1000, Window: time.Hour, First: time.Microsecond, Cap: time.Microsecond}))...)}
	if n.client, err = remote.Dial(ctx, []string{n.RemoteAddress()}); err != nil {
		t.Fatal(err)
	}
	defer n.client.Close()
	n.settled(ctx)
	n.questions(ctx, 0)
	n.moves(ctx, topo, 0)
	before := scrape(t, n.Node)
	for i := range 200 {
		n.questions(ctx, i+1)
	}
	for i := range 3 {
		n.moves(ctx, topo, i+1)
	}
	after := scrape(t, n.Node)
	if after.observed("millrace_restore_batch_seconds") == 0 {
		t.Error("nothing was restored")
	}
	was, is := before.series(), after.series()
	for s := range is {
		if !was[s] {
			t.Error("new:", s)
		}
	}
	if !maps.Equal(was, is) || len(was) < 400 {
		t.Errorf("%d series before, %d after; gone: %v", len(was), len(is), slices.DeleteFunc(slices.Sorted(maps.Keys(was)), func(s string) bool { return is[s] }))
	}
	// The flood has come: the store without a name has all of it, thread-1 all the failures.
	after.expect(t, map[string]float64{"millrace_thread_failures_total thread=thread-1 kind=record": 4, "millrace_thread_restarts_total thread=thread-1": 4})
	if unknown := after.sum("millrace_query_failures_total", "store=", "kind=UnknownStateStore"); unknown < 200*5*3 {
		t.Errorf("%v questions about stores that there are not", unknown)
	}
}
