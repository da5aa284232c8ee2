package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	. "github.com/millrace-io/millrace/topology"
)

var (
	countryTopic = NewTopic("countries", codec.String, codec.String)
	countries    = NewGlobalStore("countries", countryTopic)
)

// ofValue is the value of a record as the key of the table; "-" has none.
func ofValue(r text) (string, bool) { return r.Value, r.Value != "-" }

func named(r text, country string) (string, error) { return r.Key + " of " + country, nil }

// Results of inner and left joins, for a record whose key is in the table, is not, is none, and that has no value. Keys,
// timestamps and headers are the stream's.
func TestJoinsWithAGlobalStore(t *testing.T) {
	b := NewBuilder()
	s := From(b, in)
	To(JoinGlobal(s, countries, ofValue, named), NewTopic("inner", codec.String, codec.String))
	To(LeftJoinGlobal(s, countries, ofValue, func(r text, country string, found bool) (string, error) {
		return fmt.Sprint(r.Key, country, found), nil
	}), NewTopic("left", codec.String, codec.String))
	m := newMemory()
	m.globals = map[string]globalMemory{"countries": {"at": "Austria", "": "nowhere"}}
	w := start(t, b, m)
	headers := record.Headers{{Key: "h", Value: []byte("v")}}
	for _, r := range []record.Raw{
		{Key: []byte("ann"), Value: []byte("at"), Timestamp: 1, Headers: headers},
		{Key: []byte("bob"), Value: []byte("de"), Timestamp: 2},
		{Key: []byte("cat"), Value: []byte("-"), Timestamp: 3},
		{Key: []byte("dan"), Timestamp: 4},
		{Key: []byte("eve"), Value: []byte{}, Timestamp: 5},
		{Value: []byte("at"), Timestamp: 6},
	} {
		if err := w.raw("in", &r); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][]sent{
		"inner": {{"ann", "ann of Austria", false, false, 1, -1}, {"eve", "eve of nowhere", false, false, 5, -1}, {"", " of Austria", true, false, 6, -1}},
		"left": {{"ann", "annAustriatrue", false, false, 1, -1}, {"bob", "bobfalse", false, false, 2, -1}, {"cat", "catfalse", false, false, 3, -1},
			{"eve", "evenowheretrue", false, false, 5, -1}, {"", "Austriatrue", true, false, 6, -1}},
	}
	for topic, records := range want {
		if d := cmp.Diff(records, m.outputs[topic].sent); d != "" {
			t.Error(topic, d)
		}
	}
	if d := cmp.Diff(headers, m.outputs["inner"].raw[0].Headers); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]int{"null join key": 1, "null value": 2}, m.dropped); d != "" {
		t.Error(d)
	}
}

func TestJoinsFailWithTheirNodeAndStore(t *testing.T) {
	broken := errors.New("broken")
	b := NewBuilder()
	ages := NewGlobalStore("ages", NewTopic("ages", codec.String, codec.Int64))
	To(JoinGlobal(From(b, in), ages, ofValue, func(text, int64) (string, error) { return "", broken }), out)
	m := newMemory()
	m.globals = map[string]globalMemory{"ages": {"old": "\x00\x00\x00\x00\x00\x00\x00\x63", "bad": "x"}}
	w := start(t, b, m)
	var p *ProcessorError
	if err := w.raw("in", &record.Raw{Key: []byte("k"), Value: []byte("old")}); !errors.Is(err, broken) || !errors.As(err, &p) || p.Node != "join-global-0000000001" {
		t.Error(err)
	}
	var s *StoreError
	if err := w.raw("in", &record.Raw{Key: []byte("k"), Value: []byte("bad")}); !errors.As(err, &s) || s.Store != "ages" {
		t.Error(err)
	}
}

// A processor reads a global store by key and by range. One that does not name it, or that opens it as a store of its
// own, is told so.
func TestProcessorReadsAGlobalStore(t *testing.T) {
	var got []string
	reads := func(ctx *Context[string, string]) error {
		table, err := countries.In(ctx)
		if err != nil {
			return err
		}
		one, at, found, err := table.GetTimestamped("at")
		_, absent, err2 := table.Get("xx")
		got = append(got, fmt.Sprint(one, at, found, absent))
		for _, scan := range []func(func(Entry[string, string], error) bool){
			table.All(), table.ReverseAll(), table.Range("b", "ch"), table.ReverseRange("a", "b"), table.Range("z", "a"),
		} {
			text := ""
			for e, err := range scan {
				if err != nil {
					text += fmt.Sprint(errors.Is(err, ErrRangeNotOrdered))
				}
				text += e.Key + "=" + e.Value + " "
			}
			got = append(got, strings.TrimSpace(text))
		}
		return errors.Join(err, err2)
	}
	b := NewBuilder()
	Process(From(b, in), "reads", func() Processor[string, string, string, string] { return &probe{init: reads} }, countries)
	m := newMemory()
	m.globals = map[string]globalMemory{"countries": {"at": "Austria", "ch": "Switzerland", "be": "Belgium"}}
	start(t, b, m)
	want := []string{"Austria5 true false", "at=Austria be=Belgium ch=Switzerland", "ch=Switzerland be=Belgium at=Austria", "be=Belgium ch=Switzerland", "at=Austria", "true="}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for name, init := range map[string]func(*Context[string, string]) error{
		"not connected": func(ctx *Context[string, string]) error {
			_, err := NewGlobalStore("other", second).In(ctx)
			return err
		},
		"NewGlobalStore": func(ctx *Context[string, string]) error {
			_, err := NewKeyValueStore("countries", codec.String, codec.String).In(ctx)
			return err
		},
		"no global store": func(ctx *Context[string, string]) error {
			_, err := NewGlobalStore("strings", second).In(ctx)
			return err
		},
	} {
		b := NewBuilder()
		Process(From(b, in), "p", func() Processor[string, string, string, string] { return &probe{init: init} }, countries, NewKeyValueStore("strings", codec.String, codec.String))
		w := bare(t, b, m)
		if err := w.instances[0].Init(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two streams that read one global store stay two sub-topologies, and need no equal numbers of partitions.
func TestGlobalStoresTieNothingTogether(t *testing.T) {
	b := NewBuilder()
	b.AddGlobalStore(NewGlobalStore("kept", NewTopic("kept", codec.String, codec.String)).InMemory())
	To(JoinGlobal(From(b, in), countries, ofValue, named), out)
	Process(From(b, second), "p", pass, countries, NewKeyValueStore("own", codec.String, codec.String))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	top = top.Bind("app")
	if n := len(top.SubTopologies); n != 2 {
		t.Fatal(n)
	}
	counts := map[string]int32{"in": 3, "second": 5, "countries": 2, "kept": 1, "out": 1}
	if _, err := top.RepartitionCounts(counts); err != nil {
		t.Error(err)
	}
	if err := top.CheckPartitions(counts); err != nil {
		t.Error(err)
	}
	var globals []string
	for _, g := range top.Globals {
		globals = append(globals, g.Name+" "+g.Topic+" "+g.Kind)
	}
	if d := cmp.Diff([]string{"kept kept key-value", "countries countries key-value"}, globals); d != "" {
		t.Error(d)
	}
	for i, stores := range [][]string{nil, {"own"}} {
		s := top.SubTopologies[i]
		var names []string
		for _, st := range s.Stores {
			names = append(names, st.Name)
		}
		if d := cmp.Diff(stores, names); d != "" || len(s.Globals) != 1 || s.Globals[0] != "countries" {
			t.Error(d, s.Globals)
		}
	}
	for _, line := range []string{"   Global store: kept (topic: kept, in memory)\n", "   Global store: countries (topic: countries)\n", "(stores: [countries (global), own])"} {
		if !strings.Contains(top.Describe(), line) {
			t.Errorf("%q is not in\n%s", line, top.Describe())
		}
	}
}

// What a global store takes is read with its codecs first; a record without a value is a deletion.
func TestGlobalStoreChecksRecords(t *testing.T) {
	b := NewBuilder()
	b.AddGlobalStore(NewGlobalStore("ages", NewTopic("ages", codec.Int64, codec.Int64)))
	To(From(b, in), out)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	eight := make([]byte, 8)
	for part, raw := range map[string]record.Raw{"": {Key: eight, Value: eight}, "key": {Key: []byte("x"), Value: eight}, "value": {Key: eight, Value: []byte("x")}} {
		err := top.Globals[0].Check(&raw)
		if d := (*DeserializationError)(nil); part != "" && (!errors.As(err, &d) || d.Part != part || d.Topic != "ages") || part == "" && err != nil {
			t.Errorf("%q: %v", part, err)
		}
	}
	if err := top.Globals[0].Check(&record.Raw{Key: eight}); err != nil {
		t.Error(err)
	}
}
