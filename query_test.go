package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

// A plain actor program asks with the library's own future: a value while the node runs, a typed failure before and after,
// and never a dead letter.
func TestPlainActorAsksByPID(t *testing.T) {
	c := cluster(t)
	feed(t, c, "the race the wheel")
	system := actors.NewSystem(slog.New(slog.DiscardHandler))
	var deadLetters atomic.Int64
	sub := system.EventStream.Subscribe(func(e any) {
		if d, ok := e.(*actor.DeadLetterEvent); ok {
			if _, question := d.Message.(query.Question); question {
				deadLetters.Add(1)
			}
		}
	})
	defer system.EventStream.Unsubscribe(sub)
	n, err := millrace.New("app", wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithActorSystem(system))
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("the")
	ask := func() *querypb.Reply {
		t.Helper()
		pid := n.StorePID("counts", record.Partition(key, 4))
		answer, err := n.ActorSystem().Root.RequestFuture(pid, &querypb.Get{Key: key}, time.Minute).Result()
		if err != nil {
			t.Fatal(err)
		}
		return answer.(*querypb.Reply)
	}
	if err := query.FromReply(ask()); !errors.Is(err, query.ErrStreamThreadNotStarted) {
		t.Fatal("before Run:", err)
	}
	done := make(chan error, 1)
	go func() { done <- n.Run(context.Background()) }()
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	reply := ask()
	if v := reply.GetValue(); !v.GetPresent() {
		t.Fatal(reply)
	} else if got, err := codec.Int64.Decode(v.Value); got != 2 || err != nil {
		t.Fatal(got, err)
	}
	if len(reply.Position) == 0 {
		t.Error("the reply has no position")
	}
	if err := n.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := query.FromReply(ask()); !errors.Is(err, query.ErrStreamThreadNotRunning) || !errors.Is(err, query.ErrFatal) {
		t.Fatal("after Shutdown:", err)
	}
	if deadLetters.Load() > 0 {
		t.Fatal(deadLetters.Load(), "questions ended in dead letters")
	}
}

func TestPermanentMistakesAreNamedAsSuch(t *testing.T) {
	n, err := millrace.New("app", wordCount(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	misspelt := topology.NewKeyValueStore("cuonts", codec.String, codec.Int64)
	if _, _, err := query.Get(ctx, n, misspelt, "k"); !errors.Is(err, query.ErrUnknownStateStore) || errors.Is(err, query.ErrRetryable) {
		t.Error(err)
	}
	if _, _, err := query.Get(ctx, n, counts, "k"); !errors.Is(err, query.ErrStreamThreadNotStarted) || !errors.Is(err, query.ErrRetryable) {
		t.Error(err)
	}
	if err := n.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Run(ctx); !errors.Is(err, millrace.ErrAlreadyRun) {
		t.Error("Run after Shutdown:", err)
	}
}

func TestHTTPAnswers(t *testing.T) {
	c := cluster(t)
	feed(t, c, "the race the wheel")
	n := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(n.Handler())
	defer server.Close()
	for path, want := range map[string]string{
		"/readyz":                    `200 {"state":"RUNNING"`,
		"/startupz":                  `200 {"state":"RUNNING"`,
		"/readyz?verbose":            "200 [+]node RUNNING\n[+]threads 2 running\n[+]stores none is restored\n[+]stuck no thread\n[+]quarantined no task\n[+]disk nothing waits for space\nreadyz check passed\n",
		"/stores":                    `200 [{"name":"counts","kind":"key-value","key_text":"key","key_codec":"string","value_codec":"int64","partitions":4}]`,
		"/stores/counts/keys/the":    `200 {"found":true,"key":"the","value":"2"`,
		"/stores/counts/keys/absent": `404 {"found":false,"key":"absent"`,
		"/stores/cuonts/keys/the":    `404 {"type":"urn:millrace:failure:UnknownStateStore"`,
	} {
		res, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if got := fmt.Sprintf("%d %s", res.StatusCode, body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s…", path, got, want)
		}
	}
}

// A processor that panics on a record is restarted in its slot; the state is published with its cause before that, and the
// record is processed in the end, once the fault is gone.
func TestPanicIsASupervisedRestart(t *testing.T) {
	c := cluster(t)
	var faults atomic.Int64
	faults.Store(2)
	b := topology.NewBuilder()
	kept := topology.Filter(topology.From(b, lines), func(r record.Record[string, string]) bool {
		if r.Value == "bad" && faults.Add(-1) >= 0 {
			panic("broken wheel")
		}
		return true
	})
	keyed := topology.SelectKey(kept, func(r record.Record[string, string]) string { return r.Value })
	topology.To(topology.Count(topology.Through(keyed, words), counts), out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, topo, millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1),
		millrace.WithQuarantine(thread.QuarantinePolicy{}))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	restarts := make(chan millrace.StateChange, 64)
	changes := n.Watch(ctx)
	go func() {
		for change := range changes {
			if change.Cause != nil && change.New == lifecycle.ThreadRebalancing.String() {
				restarts <- change
			}
		}
	}()
	feed(t, c, "good", "bad", "good", "good")
	if err := n.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]int64{"bad": 1, "good": 3} {
		if got, _, err := query.Get(ctx, n.Node, counts, word); err != nil || got < want {
			t.Errorf("%s = %d, %v; at least once means at least %d", word, got, err, want)
		}
	}
	if threads := n.Threads(); threads[0].Epoch != 3 {
		t.Errorf("two faults make the third incarnation, not %d", threads[0].Epoch)
	}
	first := <-restarts
	if !strings.Contains(first.Cause.Error(), "broken wheel") {
		t.Error(first.Cause)
	}
}

// A processor that always panics ends the node after the intensity limit, with the record in the error (case H17).
func TestH17PoisonRecordEndsTheNodeWithItsCoordinates(t *testing.T) {
	c := cluster(t)
	b := topology.NewBuilder()
	topology.To(topology.Map(topology.From(b, lines), func(r record.Record[string, string]) (record.Record[string, int64], error) {
		panic("always")
	}), out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	intensity := actors.Intensity{Max: 2, Window: time.Minute, First: time.Millisecond, Cap: time.Millisecond}
	n, err := millrace.New("app", topo, millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1), millrace.WithRestarts(intensity), millrace.WithQuarantine(thread.QuarantinePolicy{}))
	if err != nil {
		t.Fatal(err)
	}
	feed(t, c, "poison")
	err = n.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "record at offset 0 of lines-0") || !strings.Contains(err.Error(), "attempt 3") {
		t.Fatal(err)
	}
	if n.State() != lifecycle.NodeError {
		t.Fatal(n.State())
	}
	if _, _, err := query.Get(t.Context(), n, counts, "x"); err == nil {
		t.Fatal("a failed node answers")
	}
}

func TestMissingSourceTopicIsNamed(t *testing.T) {
	c := cluster(t)
	b := topology.NewBuilder()
	topology.To(topology.From(b, topology.NewTopic("elsewhere", codec.String, codec.Int64)), out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	n, err := millrace.New("app", topo, millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	var missing *millrace.MissingTopicError
	if err := n.Run(t.Context()); !errors.As(err, &missing) || missing.Topic != "elsewhere" || !strings.Contains(err.Error(), `topic "elsewhere", which the topology reads, does not exist`) {
		t.Fatal(err)
	}
}

func TestUnreachableClusterEndsRunWithOneSentence(t *testing.T) {
	n, err := millrace.New("app", wordCount(t), millrace.WithBrokers("127.0.0.1:1"), millrace.WithStateDir(t.TempDir()), millrace.WithStartTimeout(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
}

// A second node of the application takes half of the tasks over and gives them back when the first needs them; partitions
// that stay are not interrupted, and every count is right in the end.
func TestTwoNodesShareAndTakeOver(t *testing.T) {
	c := cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	input, want := texts(2000)
	feed(t, c, input...)
	one := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1))
	two := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1))
	settled := func() bool { return len(one.Owned()) == 4 && len(two.Owned()) == 4 }
	await(ctx, t, settled, func() string { return fmt.Sprint(one.Owned(), two.Owned()) })
	feed(t, c, input...)
	if err := two.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	two.stop()
	await(ctx, t, one.OwnsAll, func() string { return fmt.Sprint(one.Owned()) })
	if err := one.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	got := one.counts(ctx)
	for w, n := range want {
		if got[w] != 2*n {
			t.Fatalf("%s = %d, want %d", w, got[w], 2*n)
		}
	}
}

// await looks again at each state change and every few milliseconds, since ownership may change without one.
func await(ctx context.Context, t testing.TB, ok func() bool, now func() string) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatal("did not come true:", now())
		}
	}
}
