package topology_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	. "github.com/millrace-io/millrace/topology"
)

// probe is a processor that does what a test tells it to.
type probe struct {
	ctx       *Context[string, string]
	init      func(*Context[string, string]) error
	process   func(*Context[string, string], text) error
	fail      error
	failClose error
	name      string
	log       *[]string
}

func (p *probe) say(what string) {
	if p.log != nil {
		*p.log = append(*p.log, what+" "+p.name)
	}
}

func (p *probe) Init(ctx *Context[string, string]) error {
	p.ctx = ctx
	p.say("init")
	if p.init != nil {
		return p.init(ctx)
	}
	return nil
}

func (p *probe) Process(r text) error {
	if p.fail != nil {
		return p.fail
	}
	if p.process != nil {
		return p.process(p.ctx, r)
	}
	return p.ctx.Forward(r)
}

func (p *probe) Close() error {
	p.say("close")
	return p.failClose
}

func (p *probe) supply() Processor[string, string, string, string] { return p }

func TestInitGoesDownAndCloseUp(t *testing.T) {
	var log []string
	bad1, bad2 := errors.New("one"), errors.New("two")
	b := NewBuilder()
	s := Process(From(b, in), "a", (&probe{name: "a", log: &log, failClose: bad1}).supply)
	Process(s, "b", (&probe{name: "b", log: &log, failClose: bad2}).supply)
	w := start(t, b, newMemory())
	err := w.instances[0].Close()
	if !errors.Is(err, bad1) || !errors.Is(err, bad2) {
		t.Errorf("Close must join the errors: %v", err)
	}
	if err := w.instances[0].Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if want := []string{"init a", "init b", "close b", "close a"}; !slices.Equal(log, want) {
		t.Errorf("%q, want %q", log, want)
	}
}

func TestCloseAfterAFailedInitSkipsWhatWasNotInited(t *testing.T) {
	var log []string
	boom := errors.New("boom")
	b := NewBuilder()
	s := Process(From(b, in), "a", (&probe{name: "a", log: &log, init: func(*Context[string, string]) error { return boom }}).supply)
	Process(s, "b", (&probe{name: "b", log: &log}).supply)
	w := bare(t, b, newMemory())
	var p *ProcessorError
	if err := w.instances[0].Init(); !errors.As(err, &p) || p.Node != "a" || p.Cause != boom {
		t.Fatalf("%v", err)
	}
	if err := w.instances[0].Close(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"init a", "close a"}; !slices.Equal(log, want) {
		t.Errorf("%q, want %q", log, want)
	}
}

func TestForwardToOneAndToAll(t *testing.T) {
	b := NewBuilder()
	s := Process(From(b, in), "router", (&probe{process: func(c *Context[string, string], r text) error {
		if r.Key == "" {
			return c.Forward(r)
		}
		return c.ForwardTo(r.Key, r)
	}}).supply)
	var log []string
	for _, name := range []string{"left", "right"} {
		Process(s, name, (&probe{process: func(_ *Context[string, string], r text) error {
			log = append(log, name+r.Value)
			return nil
		}}).supply)
	}
	w := start(t, b, newMemory())
	w.feed("in", "right", "1", 0)
	w.feed("in", "", "2", 0)
	if want := []string{"right1", "left2", "right2"}; !slices.Equal(log, want) {
		t.Errorf("%q, want %q", log, want)
	}
	err := w.raw("in", &record.Raw{Key: []byte("middle")})
	var p *ProcessorError
	if !errors.As(err, &p) || p.Node != "router" || !strings.Contains(err.Error(), `"middle"`) {
		t.Errorf("a child that is not there: %v", err)
	}
}

func TestContextTellsWhereAndWhen(t *testing.T) {
	host := newMemory()
	host.stream, host.wall = 11, 22
	b := NewBuilder()
	Process(From(b, in), "p", (&probe{process: func(c *Context[string, string], _ text) error {
		source, offset, ok := c.Current()
		if source.Topic != "in" || offset != 7 || !ok || c.StreamTime() != 11 || c.WallClock() != 22 || c.TaskID().String() != "1_2" {
			t.Errorf("%v %d %v %d %d %v", source, offset, ok, c.StreamTime(), c.WallClock(), c.TaskID())
		}
		c.RequestCommit()
		return nil
	}}).supply)
	start(t, b, host).feed("in", "", "", 0)
	if host.commits != 1 {
		t.Errorf("%d commits requested", host.commits)
	}
}

func TestStoreThatIsNotConnected(t *testing.T) {
	b := NewBuilder()
	Count(From(b, in), counts)
	Process(From(b, in), "p", (&probe{init: func(c *Context[string, string]) error { _, err := counts.In(c); return err }}).supply)
	err := bare(t, b, newMemory()).instances[0].Init()
	var p *ProcessorError
	if !errors.As(err, &p) || p.Node != "p" || !strings.Contains(err.Error(), `store "counts" is not connected to processor "p"`) {
		t.Fatalf("%v", err)
	}
}

func TestConnectByName(t *testing.T) {
	b := NewBuilder()
	b.AddStore(counts)
	Process(From(b, in), "p", (&probe{init: func(c *Context[string, string]) error { _, err := counts.In(c); return err }}).supply)
	b.Connect("p", "counts")
	start(t, b, newMemory())
}

// openStore gives the view of a store of a processor that is at work.
func openStore[K, V any](t *testing.T, store KeyValueStore[K, V]) (*KeyValue[K, V], *memory) {
	var view *KeyValue[K, V]
	b := NewBuilder()
	Process(From(b, in), "p", (&probe{init: func(c *Context[string, string]) (err error) { view, err = store.In(c); return err }}).supply, store)
	host := newMemory()
	start(t, b, host)
	return view, host
}

func TestKeyValue(t *testing.T) {
	kv, host := openStore(t, NewKeyValueStore("kv", codec.OrderedInt64, codec.String))
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, found, err := kv.Get(1); found || err != nil {
		t.Fatal(found, err)
	}
	check(kv.Delete(1)) // what is not there
	for _, k := range []int64{3, -1, 2} {
		check(kv.Put(k, strings.Repeat("x", int(k+1)), 10+k))
	}
	if v, ts, found, err := kv.GetTimestamped(-1); v != "" || ts != 9 || !found || err != nil {
		t.Fatalf("an empty value is present: %q %d %v %v", v, ts, found, err)
	}
	for name, c := range map[string]struct {
		got  func(func(Entry[int64, string], error) bool)
		want []int64
	}{
		"all": {kv.All(), []int64{-1, 2, 3}}, "reverse all": {kv.ReverseAll(), []int64{3, 2, -1}},
		"range": {kv.Range(-1, 2), []int64{-1, 2}}, "reverse range": {kv.ReverseRange(2, 3), []int64{3, 2}},
	} {
		var keys []int64
		for e, err := range c.got {
			check(err)
			keys = append(keys, e.Key)
			if e.Timestamp != 10+e.Key || len(e.Value) != int(e.Key+1) {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if d := cmp.Diff(c.want, keys); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	check(kv.Delete(2))
	if _, found, _ := kv.Get(2); found {
		t.Error("deleted, still there")
	}
	host.stores["kv"].err = errBroker
	var last error
	for _, err := range kv.All() {
		last = err
	}
	var s *StoreError
	if !errors.As(last, &s) || s.Store != "kv" || !errors.Is(last, errBroker) {
		t.Errorf("the range's error: %v", last)
	}
}

// The loop body may use the view: its scratch buffers are not the range's bounds.
func TestRangeBodyMayUseTheStore(t *testing.T) {
	kv, _ := openStore(t, strs)
	for _, k := range []string{"a", "b", "c"} {
		if err := kv.Put(k, k, 0); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	for e, err := range kv.Range("a", "b") {
		if err != nil {
			t.Fatal(err)
		}
		if err := kv.Put(e.Key, e.Value+"!", 1); err != nil {
			t.Fatal(err)
		}
		if v, _, err := kv.Get("c"); v != "c" || err != nil {
			t.Fatal(v, err)
		}
		got[e.Key] = e.Value
	}
	if want := map[string]string{"a": "a", "b": "b"}; !maps.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
}

type tick struct{ stream, wall int64 }

// punctuated gives the times at which a punctuation is called for a series of Punctuate calls.
func punctuated(t *testing.T, clock PunctuationType, interval int64, ticks []tick) (calls []int64) {
	b := NewBuilder()
	Process(From(b, in), "p", (&probe{init: func(c *Context[string, string]) error {
		_, err := c.Schedule(interval, clock, func(now int64) error { calls = append(calls, now); return nil })
		return err
	}}).supply)
	host := newMemory()
	host.wall = 100
	w := start(t, b, host)
	for _, k := range ticks {
		if err := w.instances[0].Punctuate(k.stream, k.wall); err != nil {
			t.Fatal(err)
		}
	}
	return calls
}

func TestPunctuation(t *testing.T) {
	for _, c := range []struct {
		name  string
		clock PunctuationType
		ticks []tick
		want  []int64
	}{
		{"stream time: nothing without data", StreamTime, []tick{{-1, 1000}}, nil},
		{"stream time: aligned to 0, at once with data", StreamTime, []tick{{3, 100}, {9, 100}, {10, 100}, {10, 500}, {19, 500}}, []int64{3, 10}},
		{"stream time: a gap fires once", StreamTime, []tick{{0, 0}, {57, 0}, {59, 0}, {60, 0}}, []int64{0, 57, 60}},
		{"wall clock: first after one interval", WallClock, []tick{{50, 100}, {60, 109}, {-1, 110}, {-1, 119}, {-1, 120}}, []int64{110, 120}},
		{"wall clock: a pause fires once and keeps step", WallClock, []tick{{0, 147}, {0, 149}, {0, 150}}, []int64{147, 150}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, punctuated(t, c.clock, 10, c.ticks)); d != "" {
				t.Error(d)
			}
		})
	}
}

// A task that starts again has punctuated up to its stream time, and that is committed. What is scheduled after Init
// begins at 0, as ever.
func TestPunctuationGoesOnAfterARestart(t *testing.T) {
	for stream, want := range map[int64][]int64{-1: {5, 10, 20}, 0: {10, 20}, 9: {10, 20}, 10: {20}, 17: {20}, 40: nil} {
		var calls []int64
		schedule := func(c *Context[string, string]) error {
			_, err := c.Schedule(10, StreamTime, func(now int64) error { calls = append(calls, now); return nil })
			return err
		}
		b := NewBuilder()
		Process(From(b, in), "p", (&probe{init: schedule, process: func(c *Context[string, string], _ text) error { return schedule(c) }}).supply)
		host := newMemory()
		host.stream = stream
		w := start(t, b, host)
		for _, now := range []int64{5, 10, 19, 20} {
			if now < stream {
				continue
			}
			if err := w.instances[0].Punctuate(now, 0); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, calls); d != "" {
			t.Errorf("from stream time %d: %s", stream, d)
		}
		calls = nil
		w.feed("in", "k", "v", 41)
		if err := w.instances[0].Punctuate(41, 0); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(map[bool][]int64{true: {41}, false: {41, 41}}[stream == 40], calls); d != "" {
			t.Errorf("from stream time %d, scheduled at work: %s", stream, d)
		}
	}
}

func TestPunctuationIsCancelledAndNamed(t *testing.T) {
	boom := errors.New("boom")
	var cancel func()
	b := NewBuilder()
	Process(From(b, in), "p", (&probe{init: func(c *Context[string, string]) (err error) {
		if _, err := c.Schedule(0, WallClock, func(int64) error { return nil }); err == nil {
			t.Error("an interval of 0 must be refused")
		}
		cancel, err = c.Schedule(10, WallClock, func(int64) error { return boom })
		return err
	}}).supply)
	in := start(t, b, newMemory()).instances[0]
	if next, ok := in.NextWallClock(); next != 10 || !ok {
		t.Errorf("next is %d %v", next, ok)
	}
	var p *ProcessorError
	if err := in.Punctuate(-1, 10); !errors.As(err, &p) || p.Node != "p" || p.Cause != boom {
		t.Errorf("%v", err)
	}
	cancel()
	if next, ok := in.NextWallClock(); ok {
		t.Errorf("cancelled, next is %d", next)
	}
	if err := in.Punctuate(-1, 99); err != nil {
		t.Errorf("cancelled, and called: %v", err)
	}
}
