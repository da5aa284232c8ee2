package topology

import "fmt"

// Graph is what a drawing of a topology shows: topics, sub-topologies, each of which is a task for each partition, and stores.
// It has each place once, in the order in which a record comes by.
type Graph struct {
	Places []Place
	// Edges are pairs of indices of Places: from the first to the second.
	Edges [][2]int
}

// Place is one thing of a Graph.
type Place struct {
	Label string
	Kind  PlaceKind
	// SubTopology is the number of a TasksPlace; 0 otherwise.
	SubTopology int32
}

// PlaceKind is what a Place is.
type PlaceKind int

// The kinds of places.
const (
	TopicPlace PlaceKind = iota
	TasksPlace
	StorePlace
)

// Graph has the names that the topology has in Kafka for an application.
func (t *Topology) Graph(app string) *Graph {
	g := &Graph{}
	for i := range t.Globals {
		s := &t.Globals[i]
		g.join(g.at(Place{Label: s.Topic, Kind: TopicPlace}), g.global(s.Name))
	}
	for _, sub := range t.SubTopologies {
		g.add(app, sub)
	}
	return g
}

func (g *Graph) add(app string, sub *SubTopology) {
	tasks := Place{fmt.Sprint("tasks ", sub.ID, "_*"), TasksPlace, sub.ID}
	for _, s := range sub.Sources {
		g.join(g.at(Place{Label: s.Topic, Kind: TopicPlace}), g.at(tasks))
	}
	at := g.at(tasks)
	for i := range sub.Stores {
		store := g.at(Place{Label: sub.Stores[i].Name, Kind: StorePlace})
		g.join(at, store)
		if sub.Stores[i].Changelog {
			g.join(store, g.at(Place{Label: ChangelogTopic(app, sub.Stores[i].Name), Kind: TopicPlace}))
		}
	}
	for _, name := range sub.Globals {
		g.join(g.global(name), at)
	}
	for _, s := range sub.Sinks {
		g.join(at, g.at(Place{Label: s.Topic, Kind: TopicPlace}))
	}
}

func (g *Graph) global(store string) int {
	return g.at(Place{Label: store + " (global)", Kind: StorePlace})
}

// at is the index of a place, which is added if it is new.
func (g *Graph) at(p Place) int {
	for i := range g.Places {
		if g.Places[i] == p {
			return i
		}
	}
	g.Places = append(g.Places, p)
	return len(g.Places) - 1
}

func (g *Graph) join(from, to int) { g.Edges = append(g.Edges, [2]int{from, to}) }
