package millracetest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// The client library's metrics have one goroutine for ever, and so has each engine that was not opened because of its disk.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"),
		goleak.IgnoreTopFunction("github.com/cockroachdb/pebble/v2.(*ConcurrencyLimitScheduler).periodicGranter"))
}

var (
	lines  = topology.NewTopic("lines", codec.String, codec.String)
	totals = topology.NewTopic("totals", codec.String, codec.Int64)
	words  = topology.NewRepartition("words", codec.String, codec.String)
	counts = topology.NewKeyValueStore("counts", codec.String, codec.Int64)
)

type text = record.Record[string, string]

// wordCount fails at the word "poison", as often as *bad says.
func wordCount(tb testing.TB, bad *int, more ...func(*topology.Builder)) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder()
	split := topology.FlatMap(topology.From(b, lines), func(line text, emit func(text) error) error {
		for word := range strings.FieldsSeq(line.Value) {
			if err := emit(record.New(word, word, line.Timestamp)); err != nil {
				return err
			}
		}
		return nil
	})
	checked := topology.Map(topology.Through(split, words), func(r text) (text, error) {
		if r.Key == "poison" && *bad > 0 {
			*bad--
			return r, errors.New("it is poison")
		}
		return r, nil
	})
	topology.To(topology.Count(checked, counts), totals)
	for _, f := range more {
		f(b)
	}
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func line(words string) millracetest.Record[string, string] {
	return millracetest.Keyless[string](words)
}

func countsOf(tb millracetest.TB, d *millracetest.Driver) map[string]int64 {
	tb.Helper()
	got := map[string]int64{}
	for e, err := range query.All(context.Background(), d, counts) {
		if err != nil {
			tb.Fatalf("%v", err)
		}
		got[e.Key] = e.Value
	}
	return got
}

func same[K comparable, V comparable](tb millracetest.TB, got, want map[K]V) {
	tb.Helper()
	if !maps.Equal(got, want) {
		tb.Fatalf("got %v, want %v", got, want)
	}
}

func TestSendRunsEverythingThatFollows(t *testing.T) {
	d := millracetest.NewDriver(t, wordCount(t, new(int)), millracetest.AllPartitions(3))
	millracetest.Send(d, lines, line("a b a"), line("b b c").In(2))
	outputs := millracetest.Read(d, totals)
	if len(outputs) != 3 {
		t.Errorf("an aggregation emits once for each key of a commit: %v", outputs)
	}
	want := map[string]int64{"a": 2, "b": 3, "c": 1}
	same(t, millracetest.Latest(outputs), want)
	same(t, countsOf(t, d), want)
	if again := millracetest.Read(d, totals); len(again) != 0 {
		t.Errorf("read twice: %v", again)
	}
	millracetest.Send(d, lines, line("c"))
	same(t, millracetest.Latest(millracetest.Read(d, totals)), map[string]int64{"c": 2})
}

// Clean ends, power cuts and lost disks, in any order, lose nothing and double nothing.
func TestRestartsLoseNothing(t *testing.T) {
	top := wordCount(t, new(int))
	rapid.Check(t, func(t *rapid.T) {
		d := millracetest.NewDriver(t, top, millracetest.AllPartitions(2))
		want := map[string]int64{}
		last := map[string]int64{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				d.Restart()
			case 1:
				d.Crash()
			case 2:
				d.LoseState()
			default:
				var records []millracetest.Record[string, string]
				for range rapid.IntRange(1, 3).Draw(t, "lines") {
					word := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "word")
					want[word] += 2
					records = append(records, line(word+" "+word).In(rapid.Int32Range(0, 1).Draw(t, "partition")))
				}
				millracetest.Send(d, lines, records...)
			}
			maps.Copy(last, millracetest.Latest(millracetest.Read(d, totals)))
			same(t, countsOf(t, d), want)
			same(t, last, want)
		}
	})
}

// A failure takes nothing with it and is tried again; what is in other partitions goes on.
func TestFailureTakesNothingWithIt(t *testing.T) {
	bad := 2
	d := millracetest.NewDriver(t, wordCount(t, &bad), millracetest.AllPartitions(2))
	err := millracetest.TrySend(d, lines, line("a poison b"), line("c d"))
	if p := (*task.ProcessError)(nil); !errors.As(err, &p) || p.Source.Topic != "driver-words-repartition" {
		t.Fatalf("%v", err)
	}
	poisoned := record.Partition([]byte("poison"), 2)
	for _, o := range millracetest.Read(d, totals) {
		if o.Partition == poisoned && record.Partition([]byte(o.Key), 2) == poisoned {
			t.Errorf("%s was written in the interval that failed", o.Key)
		}
	}
	if err := d.Run(); err == nil {
		t.Fatal("the record was passed although no handler said so")
	}
	if err := d.Run(); err != nil {
		t.Fatal(err)
	}
	same(t, countsOf(t, d), map[string]int64{"a": 1, "poison": 1, "b": 1, "c": 1, "d": 1})
}

func TestDeadLettersCanBeRead(t *testing.T) {
	bad := 1
	d := millracetest.NewDriver(t, wordCount(t, &bad, func(b *topology.Builder) {
		b.Always(topology.Processing, topology.DeadLetter)
		b.DeadLetterTopic("dead")
	}))
	millracetest.Send(d, lines, line("a poison b"))
	same(t, countsOf(t, d), map[string]int64{"a": 1, "b": 1})
	dead := millracetest.ReadRaw(d, record.TopicPartition{Topic: "dead"})
	if len(dead) != 1 || string(dead[0].Value) != "poison" {
		t.Fatalf("%v", dead)
	}
}

func TestTimeMovesByAdvance(t *testing.T) {
	b := topology.NewBuilder()
	var ticks []int64
	topology.Consume(topology.From(b, lines), "clock", func() topology.Processor[string, string, topology.Void, topology.Void] {
		return &ticker{ticks: &ticks}
	})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	d := millracetest.NewDriver(t, top, millracetest.StartAt(start))
	d.Advance(500 * time.Millisecond)
	if len(ticks) != 0 {
		t.Fatalf("%v", ticks)
	}
	d.Advance(time.Second)
	if len(ticks) != 1 || ticks[0] != start.UnixMilli()+1500 || !d.Now().Equal(start.Add(1500*time.Millisecond)) {
		t.Fatalf("%v at %s", ticks, d.Now())
	}
	d.Restart()
}

// ticker notes wall-clock times once a second.
type ticker struct{ ticks *[]int64 }

func (p *ticker) Init(c *topology.Context[topology.Void, topology.Void]) error {
	_, err := c.Schedule(1000, topology.WallClock, func(at int64) error {
		*p.ticks = append(*p.ticks, at)
		return nil
	})
	return err
}
func (p *ticker) Process(text) error { return nil }
func (p *ticker) Close() error       { return nil }

func TestQuestionsFailAsThoseToANode(t *testing.T) {
	d := millracetest.NewDriver(t, wordCount(t, new(int)), millracetest.AllPartitions(2), millracetest.StartAt(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)))
	millracetest.Send(d, lines, line("a"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	view, err := query.Open(ctx, d, counts)
	if err != nil {
		t.Fatal(err)
	}
	if n, found, err := view.Get(ctx, "a"); n != 1 || !found || err != nil {
		t.Fatal(n, found, err)
	}
	if _, _, err := query.Get(ctx, d, topology.NewKeyValueStore("count", codec.String, codec.Int64), "a"); !errors.Is(err, query.ErrUnknownStateStore) {
		t.Error(err)
	}
	d.Restart()
	if _, _, err := view.Get(ctx, "a"); !errors.Is(err, query.ErrStateStoreMigrated) {
		t.Error(err)
	}
	if n, _, err := query.Get(ctx, d, counts, "a"); n != 1 || err != nil {
		t.Error(n, err)
	}
	d.Close()
	if _, _, err := query.Get(ctx, d, counts, "a"); !errors.Is(err, query.ErrStreamThreadNotRunning) {
		t.Error(err)
	}
}

// A Send writes nothing to the engine unless somebody looks; whoever does, in whatever way, sees the last one.
func TestQuestionsOfEveryKindSeeTheLastSend(t *testing.T) {
	b := topology.NewBuilder()
	topology.Count(topology.From(b, lines), counts)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := millracetest.NewDriver(t, top)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	send := func() { millracetest.Send(d, lines, millracetest.R("a", "")) }
	for n := int64(1); n < 40; n += 4 {
		send()
		if got, _, err := query.Get(ctx, d, counts, "a"); got != n || err != nil {
			t.Fatal(got, err)
		}
		send()
		send()
		reply, err := d.ActorSystem().Root.RequestFuture(d.StorePID("counts", 0), &querypb.Get{Key: []byte("a")}, time.Minute).Result()
		if err != nil {
			t.Fatal(err)
		}
		value := reply.(*querypb.Reply).GetValue()
		if got, err := codec.Int64.Decode(value.GetValue()); got != n+2 || err != nil {
			t.Fatal(got, err)
		}
		// It waits in the store's actor for a record that is sent behind it, or finds it there.
		answer := make(chan error, 1)
		go func() {
			got, _, err := query.Get(ctx, d, counts, "a", query.AtLeast(record.Position{{Topic: "lines"}: n + 3}))
			if err == nil && got != n+3 {
				err = fmt.Errorf("got %d, want %d", got, n+3)
			}
			answer <- err
		}()
		send()
		if err := <-answer; err != nil {
			t.Fatal(err)
		}
	}
}

// failing notes what a test is failed with, in the place of ending it.
type failing struct {
	testing.TB
	said []string
}

type ended struct{}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
	panic(ended{})
}

func TestMistakesFailTheTest(t *testing.T) {
	bad := 0
	for want, mistake := range map[string]func(f *failing){
		"topology is nil":   func(f *failing) { millracetest.NewDriver(f, nil) },
		"has no such topic": func(f *failing) { millracetest.NewDriver(f, wordCount(t, &bad), millracetest.Partitions("line", 2)) },
		"no partition 1": func(f *failing) {
			millracetest.Send(millracetest.NewDriver(f, wordCount(t, &bad)), lines, line("a").In(1))
		},
		`no topic "other"`: func(f *failing) {
			millracetest.Send(millracetest.NewDriver(f, wordCount(t, &bad)), topology.NewTopic("other", codec.String, codec.String), line("a"))
		},
	} {
		f := &failing{TB: t}
		func() {
			defer func() {
				if v := recover(); v != nil && v != (ended{}) {
					panic(v)
				}
			}()
			mistake(f)
		}()
		if !slices.ContainsFunc(f.said, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%q is not said: %q", want, f.said)
		}
	}
}

// Time, headers, absent keys and values, and bytes that nobody can read: what Kafka may hold, a test can send.
func TestRecordsCanBeWhatKafkaMayHold(t *testing.T) {
	numbers := topology.NewTopic("numbers", codec.String, codec.Int64)
	b := topology.NewBuilder()
	b.Always(topology.Deserialization, topology.Skip)
	topology.To(topology.From(b, numbers), totals)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := millracetest.NewDriver(t, top, millracetest.Logger(slog.New(slog.DiscardHandler)))
	at := time.UnixMilli(1234)
	millracetest.Send(d, numbers, millracetest.R("k", int64(7)).At(at).With("from", []byte("a test")), millracetest.Tombstone[string, int64]("k"), millracetest.Keyless[string](int64(8)))
	if err := millracetest.SendRaw(d, record.TopicPartition{Topic: "numbers"}, record.Raw{Key: []byte("k"), Value: []byte("no number")}); err != nil {
		t.Fatal(err)
	}
	got := millracetest.Read(d, totals)
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	if from, _ := got[0].Headers.Last("from"); got[0].Timestamp != 1234 || string(from) != "a test" || got[0].Value != 7 {
		t.Errorf("%+v", got[0])
	}
	if !got[1].NoValue || got[1].Key != "k" || !got[2].NoKey || got[2].Value != 8 {
		t.Errorf("%+v", got[1:])
	}
	if err := millracetest.SendRaw(d, record.TopicPartition{Topic: "numbers", Partition: 1}, record.Raw{}); err == nil {
		t.Error("there is one partition")
	}
}
