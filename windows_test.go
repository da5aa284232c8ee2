package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	perTen   = topology.NewWindowStore("per-ten", codec.String, codec.Int64, 10*time.Millisecond, time.Second)
	visits   = topology.NewSessionStore("visits", codec.String, codec.Int64, time.Second)
	pageView = topology.NewRepartition("views", codec.String, codec.String)
)

// windowCount counts words per 10 ms, and their sessions of at most 5 ms between two; more is done with the words too.
func windowCount(t testing.TB, more ...func(*topology.Builder, topology.Stream[string, string])) *topology.Topology {
	b := topology.NewBuilder()
	split := topology.FlatMap(topology.From(b, lines), func(r record.Record[string, string], emit func(record.Record[string, string]) error) error {
		for _, w := range strings.Fields(r.Value) {
			if err := emit(record.New(w, w, r.Timestamp)); err != nil {
				return err
			}
		}
		return nil
	})
	keyed := topology.Through(split, pageView)
	topology.CountWindows(keyed, topology.TumblingWindows(10*time.Millisecond).WithGrace(500*time.Millisecond), perTen)
	topology.CountSessions(keyed, topology.SessionWindows(5*time.Millisecond).WithGrace(500*time.Millisecond), visits)
	for _, add := range more {
		add(b, keyed)
	}
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// views are words at times: "a" and "a\x00" at 0, 4, 8 … 96, "aa" at 0, 10 … 90, and "" never.
func views(t testing.TB, c *embedded.Cluster) {
	w := newWriter(t, c, "")
	for at := range int64(100) {
		var line []string
		if at%4 == 0 {
			line = append(line, "a", "a\x00")
		}
		if at%10 == 0 {
			line = append(line, "aa")
		}
		w.put(record.TopicPartition{Topic: "lines", Partition: 1}, record.Raw{Value: []byte(strings.Join(line, " ")), Timestamp: at})
	}
	w.flush()
}

type windowCounts = iter.Seq2[query.Entry[record.Windowed[string], int64], error]

// told is every question about windows and sessions, and what came of it.
func told(t testing.TB, ctx context.Context, c query.Client) map[string][]string {
	t.Helper()
	got := map[string][]string{}
	add := func(name string, scan windowCounts) {
		for e, err := range scan {
			if err != nil {
				t.Fatal(name, err)
			}
			got[name] = append(got[name], fmt.Sprintf("%q %d-%d: %d", e.Key.Key, e.Key.Start, e.Key.End, e.Value))
		}
	}
	for _, start := range []int64{0, 20, 25} {
		n, found, err := query.Fetch(ctx, c, perTen, "a", start)
		if err != nil {
			t.Fatal(err)
		}
		got["fetch"] = append(got["fetch"], fmt.Sprint(start, n, found))
	}
	add("range", query.FetchRange(ctx, c, perTen, "a", 15, 40))
	add("range backwards", query.FetchRange(ctx, c, perTen, "a", 15, 40, query.Reverse()))
	add("keys", query.FetchKeys(ctx, c, perTen, "a", "a\x00", 90, 99, query.Partition(record.Partition([]byte("a"), 4))))
	add("everything at 50", query.FetchAll(ctx, c, perTen, 50, 50))
	add("sessions of a", query.FetchSessions(ctx, c, visits, "a"))
	add("sessions of aa", query.FindSessions(ctx, c, visits, "aa", 35, 60))
	n := 0
	for _, err := range query.AllWindows(ctx, c, perTen) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	for _, err := range query.AllSessions(ctx, c, visits) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	got["all"] = []string{fmt.Sprint(n)}
	return got
}

// Windows and sessions are answered as they were counted, exactly once; and by a node that has only their changelogs, the
// same again.
func TestWindowsAreAnsweredAndRestored(t *testing.T) {
	c, dir := cluster(t), t.TempDir()
	views(t, c)
	together := record.Partition([]byte("a"), 4) == record.Partition([]byte("a\x00"), 4)
	want := map[string][]string{
		"fetch":           {"0 3 true", "20 3 true", "25 0 false"},
		"range":           {`"a" 20-30: 3`, `"a" 30-40: 2`, `"a" 40-50: 3`},
		"range backwards": {`"a" 40-50: 3`, `"a" 30-40: 2`, `"a" 20-30: 3`},
		"keys":            {`"a" 90-100: 2`},
		"sessions of a":   {`"a" 0-96: 25`},
		"sessions of aa":  {`"aa" 40-40: 1`, `"aa" 50-50: 1`, `"aa" 60-60: 1`},
		"all":             {fmt.Sprint(30 + 12)},
	}
	if together { // keys of two lengths interleave: 0 and 90 are before 90 and 0
		want["keys"] = []string{`"a\x00" 90-100: 2`, `"a" 90-100: 2`}
	}
	for _, dir := range []string{dir, dir, t.TempDir()} {
		n := start(t, windowCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(dir), millrace.WithGuarantee(millrace.ExactlyOnce))
		if err := n.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := told(t, t.Context(), n.Node)
		if at := got["everything at 50"]; len(at) != 3 || !strings.Contains(strings.Join(at, ","), `"aa" 50-60: 1`) {
			t.Error("everything at 50:", at)
		}
		delete(got, "everything at 50")
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		asKeys := topology.NewKeyValueStore("per-ten", codec.String, codec.Int64)
		if _, _, err := query.Get(t.Context(), n.Node, asKeys, "a"); !errors.Is(err, query.ErrStateStoreTypeMismatch) {
			t.Error(err)
		}
		n.stop()
		if _, _, err := query.Fetch(t.Context(), n.Node, perTen, "a", 0); !errors.Is(err, query.ErrStreamThreadNotRunning) {
			t.Error(err)
		}
	}
}
