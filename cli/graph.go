package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/millrace-io/millrace/topology"
)

type topologyCmd struct {
	App    string `help:"Application id, which internal topics begin with." placeholder:"NAME"`
	Output string `help:"Form: text, mermaid or dot (Graphviz)." short:"o" enum:"text,mermaid,dot" default:"text"`
}

// drawing is a verb that shows what an application computes. It asks no node and no cluster.
type drawing struct {
	topologyCmd
	app App
	out io.Writer
}

func (d *drawing) run(context.Context) error {
	id := d.topologyCmd.App
	if id == "" {
		id = d.app.Name
	}
	t, err := d.app.build(id)
	if err != nil {
		return err
	}
	text := t.Describe()
	switch d.Output {
	case "mermaid":
		text = mermaid(t.Graph(id))
	case "dot":
		text = dot(t.Graph(id))
	}
	_, err = io.WriteString(d.out, text)
	return err
}

// mermaid is the graph as a Mermaid flow chart. Names of topics and stores need no escape between quotes.
func mermaid(g *topology.Graph) string {
	brackets := map[topology.PlaceKind][2]string{topology.TopicPlace: {`[["`, `"]]`}, topology.TasksPlace: {`["`, `"]`}, topology.StorePlace: {`[("`, `")]`}}
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, p := range g.Places {
		fmt.Fprintf(&b, "  n%d%s%s%s\n", i, brackets[p.Kind][0], p.Label, brackets[p.Kind][1])
	}
	for _, e := range g.Edges {
		fmt.Fprintf(&b, "  n%d --> n%d\n", e[0], e[1])
	}
	return b.String()
}

// dot is the graph as Graphviz reads it.
func dot(g *topology.Graph) string {
	shapes := map[topology.PlaceKind]string{topology.TopicPlace: "box", topology.TasksPlace: "component", topology.StorePlace: "cylinder"}
	var b strings.Builder
	b.WriteString("digraph topology {\n  rankdir=LR;\n")
	for i, p := range g.Places {
		fmt.Fprintf(&b, "  n%d [label=%q, shape=%s];\n", i, p.Label, shapes[p.Kind])
	}
	for _, e := range g.Edges {
		fmt.Fprintf(&b, "  n%d -> n%d;\n", e[0], e[1])
	}
	b.WriteString("}\n")
	return b.String()
}
