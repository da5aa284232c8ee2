package cli

import (
	"bytes"
	"context"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// joined has everything that a graph shows: a repartition topic between two kinds of tasks, a store and a global store.
func joined() App {
	return App{Name: "orders", Topology: func(app string) (*topology.Topology, error) {
		b := topology.NewBuilder()
		rates := topology.NewGlobalStore("rates", topology.NewTopic("rates", codec.String, codec.Int64))
		in := topology.From(b, topology.NewTopic("orders", codec.String, codec.String))
		moved := topology.Through(in, topology.NewRepartition("by-key", codec.String, codec.String))
		known := topology.JoinGlobal(moved, rates, func(r record.Record[string, string]) (string, bool) { return r.Key, true },
			func(r record.Record[string, string], _ int64) (string, error) { return r.Value, nil })
		topology.To(topology.Count(known, topology.NewKeyValueStore("counts", codec.String, codec.Int64)), topology.NewTopic("totals", codec.String, codec.Int64))
		return b.Build()
	}}
}

func shown(t *testing.T, args ...string) string {
	t.Helper()
	var out, complaints bytes.Buffer
	code := Run(context.Background(), joined(), Process{Args: args, Environ: func() []string { return nil }, In: strings.NewReader(""), Out: &out, Err: &complaints})
	if code != 0 {
		t.Fatal(code, complaints.String())
	}
	return out.String()
}

func TestTopologyIsDrawn(t *testing.T) {
	want := `flowchart LR
  n0[["rates"]]
  n1[("rates (global)")]
  n2[["orders"]]
  n3["tasks 0_*"]
  n4[["eu-by-key-repartition"]]
  n5["tasks 1_*"]
  n6[("counts")]
  n7[["eu-counts-changelog"]]
  n8[["totals"]]
  n0 --> n1
  n2 --> n3
  n3 --> n4
  n4 --> n5
  n5 --> n6
  n6 --> n7
  n1 --> n5
  n5 --> n8
`
	if d := cmp.Diff(want, shown(t, "topology", "--app", "eu", "-o", "mermaid")); d != "" {
		t.Error(d)
	}
	graph := shown(t, "topology", "-o", "dot")
	for _, line := range []string{"digraph topology {", `n4 [label="orders-by-key-repartition", shape=box];`, `n6 [label="counts", shape=cylinder];`, "n5 -> n8;"} {
		if !strings.Contains(graph, line) {
			t.Errorf("%s is not in\n%s", line, graph)
		}
	}
	if text := shown(t, "topology"); !strings.HasPrefix(text, "Topologies:\n") || !strings.Contains(text, "orders-by-key-repartition") {
		t.Error(text)
	}
}

func TestVersionSaysWhatWasBuilt(t *testing.T) {
	var out bytes.Buffer
	v := &version{out: &out, read: func() (*debug.BuildInfo, bool) {
		return &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Path: "example.com/mine"}, Deps: []*debug.Module{{Path: library, Version: "v1.2.3"}, {Path: "other"}},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "GOOS", Value: "linux"}}}, true
	}}
	if err := v.run(t.Context()); err != nil || out.String() != "example.com/mine (devel), go1.26\n"+library+" v1.2.3\nvcs.revision abc\n" {
		t.Errorf("%v %q", err, out.String())
	}
	out.Reset()
	v.json = true
	if err := v.run(t.Context()); err != nil || out.String() != `{"path":"example.com/mine","version":"(devel)","go":"go1.26","millrace":"v1.2.3","vcs":{"revision":"abc"}}`+"\n" {
		t.Errorf("%v %q", err, out.String())
	}
	v.read = func() (*debug.BuildInfo, bool) { return nil, false }
	if err := v.run(t.Context()); err == nil {
		t.Error("nothing is known, and it says so to nobody")
	}
	if got := shown(t, "version"); !strings.Contains(got, "go1") {
		t.Error(got)
	}
}
