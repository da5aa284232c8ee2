package topology_test

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/millrace-io/millrace/record/codec"
	. "github.com/millrace-io/millrace/topology"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// mistakes gives every BuildError that is joined in err.
func mistakes(err error) (all []*BuildError) {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range j.Unwrap() {
			all = append(all, mistakes(e)...)
		}
		return all
	}
	var e *BuildError
	if errors.As(err, &e) {
		all = append(all, e)
	}
	return all
}

func pass() Processor[string, string, string, string] { return &probe{} }

var loop = NewRepartition("loop", codec.String, codec.String)

// wrong has one mistake a line: what is wired, and the node and the reason that Build must name.
var wrong = []struct {
	node   string
	reason Reason
	wire   func(*Builder)
}{
	{"topology", NoSources, func(b *Builder) {}},
	{"no spaces", InvalidName, func(b *Builder) { Peek(From(b, NewTopic("no spaces", codec.String, codec.String)), func(text) {}) }},
	{"..", InvalidName, func(b *Builder) { Peek(From(b, NewTopic("..", codec.String, codec.String)), func(text) {}) }},
	{strings.Repeat("x", 250), InvalidName, func(b *Builder) {
		Peek(From(b, NewTopic(strings.Repeat("x", 250), codec.String, codec.String)), func(text) {})
	}},
	{"a/b", InvalidName, func(b *Builder) { Count(From(b, in), NewKeyValueStore("a/b", codec.String, codec.Int64)) }},
	{"a_b", NameCollision, func(b *Builder) {
		Peek(From(b, NewTopic("a.b", codec.String, codec.String)), func(text) {})
		Peek(From(b, NewTopic("a_b", codec.String, codec.String)), func(text) {})
	}},
	{"a_b", NameCollision, func(b *Builder) {
		Count(From(b, in), NewKeyValueStore("a.b", codec.String, codec.Int64))
		Count(From(b, in), NewKeyValueStore("a_b", codec.String, codec.Int64))
	}},
	{"p", DuplicateNode, func(b *Builder) { Process(Process(From(b, in), "p", pass), "p", pass) }},
	{"counts", DuplicateStore, func(b *Builder) {
		Process(From(b, in), "p", pass, counts, NewKeyValueStore("counts", codec.String, codec.String))
	}},
	{"counts", DuplicateStore, func(b *Builder) { Process(From(b, in), "p", pass, counts, counts.WithoutChangelog()) }},
	{"counts", DuplicateStore, func(b *Builder) { Process(From(b, in), "p", pass, counts, counts.InMemory()) }},
	{"in", CodecMismatch, func(b *Builder) {
		To(From(b, in), out)
		Count(From(b, NewTopic("in", codec.String, codec.Int64)), counts)
	}},
	{"in", MissingCodec, func(b *Builder) { Peek(From(b, NewTopic[string, string]("in", codec.String, nil)), func(text) {}) }},
	{"s", MissingCodec, func(b *Builder) { Process(From(b, in), "p", pass, NewKeyValueStore[string, string]("s", nil, nil)) }},
	{"source-0000000000", MissingFunction, func(b *Builder) { Peek(From(b, in), nil) }},
	{"p", UnknownStore, func(b *Builder) { Process(From(b, in), "p", pass); b.Connect("p", "nothing") }},
	{"p", UnknownNode, func(b *Builder) { b.AddStore(counts); b.Connect("p", "counts"); Count(From(b, in), counts) }},
	{"counts", UnusedStore, func(b *Builder) { b.AddStore(counts); To(From(b, in), out) }},
	{"count-0000000002", TwoAggregations, func(b *Builder) { Count(From(b, in), counts); Count(From(b, in), counts) }},
	{"loop", NeverWritten, func(b *Builder) { To(FromRepartition(b, loop), out) }},
	{"loop", NeverRead, func(b *Builder) { ToRepartition(From(b, in), loop) }},
	{"source-0000000000", DeadEnd, func(b *Builder) { From(b, in) }},
	{"map-values-0000000001", DeadEnd, func(b *Builder) { MapValues(From(b, in), strings.ToUpper) }},
	{"source-0000000002", Cycle, func(b *Builder) { ToRepartition(From(b, in), loop); ToRepartition(FromRepartition(b, loop), loop) }},
	{"loop", ConflictingSettings, func(b *Builder) {
		ToRepartition(From(b, in), loop)
		To(FromRepartition(b, loop.WithPartitions(3)), out)
	}},
	{"in", ConflictingSettings, func(b *Builder) { To(From(b, in), out); To(From(b, in.WithReset(Latest)), out) }},
	{"loop", InvalidPartitions, func(b *Builder) { To(Through(From(b, in), loop.WithPartitions(-1)), out) }},
	{"merge-0000000001", OtherBuilder, func(b *Builder) {
		other := NewBuilder()
		MapValues(From(other, in), strings.ToUpper)
		To(Merge(From(b, in), From(other, second)), out)
	}},
	{"processing", MissingFunction, func(b *Builder) { To(From(b, in), out); b.OnProcessingError(nil) }},
	{"production", ConflictingSettings, func(b *Builder) {
		To(From(b, in), out)
		b.Always(Production, Skip)
		b.OnProductionError(func(ErrorContext, error) Response { return Fail })
	}},
	{"stage(3)", ConflictingSettings, func(b *Builder) { To(From(b, in), out); b.Always(Stages, Skip) }},
	{"production", ConflictingSettings, func(b *Builder) { To(From(b, in), out); b.Always(Production, 3) }},
	{"deserialization", MissingDeadLetterTopic, func(b *Builder) { To(From(b, in), out); b.Always(Deserialization, DeadLetter) }},
	{"dead", UnusedDeadLetterTopic, func(b *Builder) { To(From(b, in), out); b.DeadLetterTopic("dead") }},
	{"dead", UnusedDeadLetterTopic, func(b *Builder) { To(From(b, in), out); b.DeadLetterTopic("dead"); b.Always(Processing, Skip) }},
	{"dead2", ConflictingSettings, func(b *Builder) { dead(b, "dead"); dead(b, "dead2") }},
	{"dead-letter topic", InvalidName, func(b *Builder) { dead(b, "") }},
	{"dead letters", InvalidName, func(b *Builder) { dead(b, "dead letters") }},
	{"i_n", NameCollision, func(b *Builder) {
		Peek(From(b, NewTopic("i.n", codec.String, codec.String)), func(text) {})
		b.DeadLetterTopic("i_n")
	}},
	{"count-windows-0000000001", InvalidWindows, func(b *Builder) {
		CountWindows(From(b, in), TumblingWindows(time.Minute), NewWindowStore("w", codec.String, codec.Int64, time.Hour, 2*time.Hour))
	}},
	{"count-sessions-0000000001", ShortRetention, func(b *Builder) {
		CountSessions(From(b, in), SessionWindows(time.Minute), NewSessionStore("s", codec.String, codec.Int64, time.Second))
	}},
	{"in", DeadLetterRead, func(b *Builder) { dead(b, "in") }},
	{"countries", DeadLetterRead, func(b *Builder) { b.AddGlobalStore(countries); dead(b, "countries") }},
	{"countries", GlobalStoreWritten, func(b *Builder) {
		b.AddGlobalStore(countries)
		Reduce(From(b, in), NewKeyValueStore("countries", codec.String, codec.String), func(_, v string) (string, error) { return v, nil })
	}},
	{"countries", GlobalStoreWritten, func(b *Builder) {
		Process(From(b, in), "p", pass, NewKeyValueStore("countries", codec.String, codec.String))
		Process(From(b, in), "q", pass, countries)
	}},
	{"countries", GlobalTopicRead, func(b *Builder) {
		Process(From(b, NewTopic("countries", codec.String, codec.String)), "p", pass, countries)
	}},
	{"countries", GlobalTopicRead, func(b *Builder) {
		b.AddGlobalStore(countries, NewGlobalStore("nations", countryTopic))
		To(From(b, in), out)
	}},
	{"countries", CodecMismatch, func(b *Builder) {
		b.AddGlobalStore(countries)
		To(MapValues(From(b, in), func(string) int64 { return 1 }), NewTopic("countries", codec.String, codec.Int64))
	}},
	{"countries", DuplicateStore, func(b *Builder) { Process(From(b, in), "p", pass, countries, countries.InMemory()) }},
	{"countries", DuplicateStore, func(b *Builder) {
		Process(From(b, in), "p", pass, countries, NewGlobalStore("countries", second))
	}},
	{"countries", UnusedStore, func(b *Builder) { b.AddStore(countries); To(From(b, in), out) }},
	{"countries", MissingCodec, func(b *Builder) {
		Process(From(b, in), "p", pass, NewGlobalStore("countries", NewTopic[string, string]("countries", nil, nil)))
	}},
	{"countries", ConflictingSettings, func(b *Builder) {
		Process(From(b, in), "p", pass, NewGlobalStore("countries", countryTopic.WithReset(Latest)))
	}},
	{"countries", ConflictingSettings, func(b *Builder) {
		Process(From(b, in), "p", pass, NewGlobalStore("countries", countryTopic.WithTimestamp(func(text) int64 { return 0 })))
	}},
	{"counts", ConflictingSettings, func(b *Builder) { Count(From(b, in), counts); b.AddGlobalStore(counts) }},
	{"a_b", NameCollision, func(b *Builder) {
		Count(From(b, in), NewKeyValueStore("a.b", codec.String, codec.Int64))
		b.AddGlobalStore(NewGlobalStore("a_b", countryTopic))
	}},
	{"source-0000000000", MissingFunction, func(b *Builder) {
		To(JoinGlobal(From(b, in), countries, nil, func(text, string) (string, error) { return "", nil }), out)
	}},
	{"join-global-0000000001", DeadEnd, func(b *Builder) { JoinGlobal(From(b, in), countries, ofValue, named) }},
	{"app-loop-repartition", DeadLetterRead, func(b *Builder) { Through(From(b, in), loop); dead(b, "app-loop-repartition") }},
	{"app-counts-changelog", DeadLetterRead, func(b *Builder) { Count(From(b, in), counts); dead(b, "app-counts-changelog") }},
}

// dead is a topology with a dead-letter topic that may get records.
func dead(b *Builder, name string) {
	To(From(b, in), out)
	b.OnProcessingError(func(ErrorContext, error) Response { return DeadLetter })
	b.DeadLetterTopic(name)
}

func TestEachMistakeIsNamed(t *testing.T) {
	for _, c := range wrong {
		t.Run(string(c.reason)+"/"+c.node[:min(20, len(c.node))], func(t *testing.T) {
			b := NewBuilder()
			c.wire(b)
			top, err := b.Build()
			named := func(e *BuildError) bool { return e.Node == c.node && e.Reason == c.reason && e.Detail != "" }
			if top != nil || !slices.ContainsFunc(mistakes(err), named) {
				t.Errorf("want %q: %s, got %v", c.node, c.reason, err)
			}
		})
	}
}

// Every reason that Build can give is in the table; the rest belong to partition counts.
func TestEveryReasonIsTried(t *testing.T) {
	tried := []Reason{UnknownPartitions, NotCoPartitioned}
	for _, c := range wrong {
		tried = append(tried, c.reason)
	}
	source, err := os.ReadFile("error.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(source)) {
		if _, value, ok := strings.Cut(line, " Reason = "); ok {
			n++
			if reason := Reason(strings.Trim(strings.TrimSpace(value), `"`)); !slices.Contains(tried, reason) {
				t.Errorf("no test for %q", reason)
			}
		}
	}
	if n < 15 {
		t.Fatalf("found only %d reasons in error.go", n)
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	b := NewBuilder()
	b.AddStore(counts)
	From(b, NewTopic("a b", codec.String, codec.String))
	Process(Process(From(b, in), "p", pass), "p", pass)
	for range 2 { // Build finds the same the second time
		_, err := b.Build()
		var reasons []string
		for _, e := range mistakes(err) {
			reasons = append(reasons, string(e.Reason))
		}
		slices.Sort(reasons)
		want := []string{string(DeadEnd), string(DuplicateNode), string(InvalidName), string(UnusedStore)}
		if d := cmp.Diff(want, reasons); d != "" {
			t.Fatalf("%s\n%v", d, err)
		}
	}
}

// A loop of repartition topics is found however long it is: no partition count has an origin in it, and its records go
// round for ever.
func TestLongRepartitionCycle(t *testing.T) {
	other := NewRepartition("other", codec.String, codec.String)
	b := NewBuilder()
	ToRepartition(From(b, in), loop)
	ToRepartition(MapValues(FromRepartition(b, loop), strings.ToUpper), other)
	ToRepartition(FromRepartition(b, other), loop)
	_, err := b.Build()
	if !slices.ContainsFunc(mistakes(err), func(e *BuildError) bool { return e.Reason == Cycle }) {
		t.Fatalf("want a cycle, got %v", err)
	}
}

func TestLoopThroughATopicOfOthersIsLegal(t *testing.T) {
	b := NewBuilder()
	To(Filter(From(b, in), func(r text) bool { return r.Key != "" }), in)
	if _, err := b.Build(); err != nil {
		t.Fatal(err)
	}
}

// shop has most kinds of nodes and three sub-topologies, two of which a shared store would not have joined.
func shop() *Builder {
	b := NewBuilder()
	orders := From(b, in)
	To(Filter(orders, func(r text) bool { return r.Key != "" }), out)
	regions := Through(SelectKey(orders, func(r text) string { return r.Value }), NewRepartition("regions", codec.String, codec.String))
	To(Count(regions, counts), numbers)
	Process(From(b, second), "auditor", pass, strs)
	Process(From(b, NewTopic("third", codec.String, codec.String).WithReset(Latest)), "reader", pass, strs)
	return b
}

func TestDescribe(t *testing.T) {
	top, err := shop().Build()
	if err != nil {
		t.Fatal(err)
	}
	got := top.Bind("shop").Describe()
	const file = "testdata/describe.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Error(d)
	}
	again, err := shop().Build()
	if err != nil || again.Bind("shop").Describe() != got {
		t.Errorf("the same calls gave another topology (%v)", err)
	}
}

func TestSubTopologiesAsData(t *testing.T) {
	top, err := shop().Build()
	if err != nil {
		t.Fatal(err)
	}
	bound := top.Bind("shop")
	if len(bound.SubTopologies) != 3 {
		t.Fatalf("%d sub-topologies", len(bound.SubTopologies))
	}
	count, audit := bound.SubTopologies[1], bound.SubTopologies[2]
	if s := count.Sources[0]; count.ID != 1 || s.Topic != RepartitionTopic("shop", "regions") || s.Topic != "shop-regions-repartition" || !s.Internal {
		t.Errorf("%+v", count)
	}
	if s := count.Stores[0]; s.Name != "counts" || s.Kind != "key-value" || s.KeyCodec != "string" || s.ValueCodec != "int64" || !s.Changelog {
		t.Errorf("%+v", s)
	}
	if len(audit.Sources) != 2 || audit.Sources[1].Reset != Latest || audit.Sources[0].Reset != Earliest || len(audit.Stores) != 1 {
		t.Errorf("%+v", audit)
	}
	if other := top.Bind("other").SubTopologies[1].Sources[0].Topic; other != "other-regions-repartition" || count.Sources[0].Topic != "shop-regions-repartition" {
		t.Errorf("binding changed what was bound before: %s, %s", other, count.Sources[0].Topic)
	}
	if ChangelogTopic("shop", "counts") != "shop-counts-changelog" {
		t.Error(ChangelogTopic("shop", "counts"))
	}
}

func TestStoreSettings(t *testing.T) {
	b := NewBuilder()
	config := map[string]string{"segment.bytes": "1"}
	s := NewKeyValueStore("s", codec.String, codec.String).WithChangelogConfig(config)
	config["segment.bytes"] = "2"
	Process(From(b, in), "p", pass, s, strs.WithoutChangelog())
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	specs := top.SubTopologies[0].Stores
	if specs[0].ChangelogConfig["segment.bytes"] != "1" || !specs[0].Changelog || specs[1].Changelog {
		t.Errorf("%+v", specs)
	}
}

// Wiring a string-valued stream into a processor of integers does not compile; wired rightly it does, without a type
// argument on any call.
func TestWiringIsCheckedByTheCompiler(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles two programs")
	}
	vet := func(dir string) (string, error) {
		b, err := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, "./testdata/wiring/"+dir).CombinedOutput()
		return string(b), err
	}
	if text, err := vet("match"); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	text, err := vet("mismatch")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(text, "newDouble") || !strings.Contains(text, "does not match") {
		t.Fatalf("want a type error at newDouble, got %v: %s", err, text)
	}
}
