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
		text = mermaid(graphOf(id, t))
	case "dot":
		text = dot(graphOf(id, t))
	}
	_, err = io.WriteString(d.out, text)
	return err
}

// shape is what a place of a graph is.
type shape int

const (
	topicShape shape = iota
	taskShape
	storeShape
)

type place struct {
	label string
	shape shape
}

// graph has each place once, in the order in which a record comes by.
type graph struct {
	places []place
	edges  [][2]int
}

func (g *graph) at(label string, s shape) int {
	for i, p := range g.places {
		if p.label == label && p.shape == s {
			return i
		}
	}
	g.places = append(g.places, place{label, s})
	return len(g.places) - 1
}

func (g *graph) join(from, to int) { g.edges = append(g.edges, [2]int{from, to}) }

// graphOf has the topics, the sub-topologies, each of which is a task for each partition, and the stores.
func graphOf(app string, t *topology.Topology) *graph {
	g := &graph{}
	for i := range t.Globals {
		s := &t.Globals[i]
		g.join(g.at(s.Topic, topicShape), g.at(s.Name+" (global)", storeShape))
	}
	for _, sub := range t.SubTopologies {
		g.add(app, sub)
	}
	return g
}

func (g *graph) add(app string, sub *topology.SubTopology) {
	for _, s := range sub.Sources {
		g.join(g.at(s.Topic, topicShape), g.at(fmt.Sprint("tasks ", sub.ID, "_*"), taskShape))
	}
	tasks := g.at(fmt.Sprint("tasks ", sub.ID, "_*"), taskShape)
	for i := range sub.Stores {
		store := g.at(sub.Stores[i].Name, storeShape)
		g.join(tasks, store)
		if sub.Stores[i].Changelog {
			g.join(store, g.at(topology.ChangelogTopic(app, sub.Stores[i].Name), topicShape))
		}
	}
	for _, name := range sub.Globals {
		g.join(g.at(name+" (global)", storeShape), tasks)
	}
	for _, s := range sub.Sinks {
		g.join(tasks, g.at(s.Topic, topicShape))
	}
}

// mermaid is the graph as a Mermaid flow chart. Names of topics and stores need no escape between quotes.
func mermaid(g *graph) string {
	brackets := map[shape][2]string{topicShape: {`[["`, `"]]`}, taskShape: {`["`, `"]`}, storeShape: {`[("`, `")]`}}
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, p := range g.places {
		fmt.Fprintf(&b, "  n%d%s%s%s\n", i, brackets[p.shape][0], p.label, brackets[p.shape][1])
	}
	for _, e := range g.edges {
		fmt.Fprintf(&b, "  n%d --> n%d\n", e[0], e[1])
	}
	return b.String()
}

// dot is the graph as Graphviz reads it.
func dot(g *graph) string {
	shapes := map[shape]string{topicShape: "box", taskShape: "component", storeShape: "cylinder"}
	var b strings.Builder
	b.WriteString("digraph topology {\n  rankdir=LR;\n")
	for i, p := range g.places {
		fmt.Fprintf(&b, "  n%d [label=%q, shape=%s];\n", i, p.label, shapes[p.shape])
	}
	for _, e := range g.edges {
		fmt.Fprintf(&b, "  n%d -> n%d;\n", e[0], e[1])
	}
	b.WriteString("}\n")
	return b.String()
}
