package topology

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Build checks everything that was added and returns the topology. Its error joins a *BuildError for every mistake, each
// naming the node, store or topic.
//
// Legal although it may look wrong: writing to a topic that the application reads (a loop through a topic that it does
// not own), and an aggregation, a Peek or a processor at the end of a stream.
func (b *Builder) Build() (*Topology, error) {
	check := *b // a copy: what is found now must not be found again by the next Build
	check.errs = slices.Clone(b.errs)
	check.checkNames()
	check.checkTopics()
	check.checkStores()
	check.checkGlobals()
	check.checkNodes()
	check.checkCycles()
	check.checkHandling()
	if len(check.errs) > 0 {
		return nil, errors.Join(check.errs...)
	}
	t := &Topology{Globals: b.globals(), topics: b.topicOrder, handlers: b.handling.Handlers}
	for _, nodes := range b.components() {
		s := &SubTopology{ID: int32(len(t.SubTopologies)), nodes: nodes, handlers: &t.handlers}
		s.describeEnds()
		for _, d := range b.storeOrder {
			switch {
			case d.global != nil:
				if slices.ContainsFunc(d.users, func(n *node) bool { return slices.Contains(nodes, n) }) {
					s.Globals = append(s.Globals, d.spec.Name)
				}
			case slices.Contains(nodes, d.users[0]):
				s.Stores = append(s.Stores, d.spec)
			}
		}
		t.SubTopologies = append(t.SubTopologies, s)
	}
	return t, nil
}

// What Kafka takes as a topic name; stores and repartition topics become part of one and name directories too. The
// application id and the suffix need room in the 249 that a topic name may have.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

const maxInternalName = 120

func (b *Builder) checkNames() {
	plain := map[string]string{}
	check := func(name string, internal bool) {
		switch {
		case !topicName.MatchString(name) || name == "." || name == "..":
			b.fail(name, InvalidName, "use 1 to 249 of a-z A-Z 0-9 . _ - and not . or .. alone")
		case internal && len(name) > maxInternalName:
			b.fail(name, InvalidName, "use at most %d characters: the application id and a suffix join it in a topic name", maxInternalName)
		}
		// Kafka's metrics take . and _ for the same, so it refuses two topics that differ in them alone.
		key := strings.ReplaceAll(name, ".", "_")
		if other, ok := plain[key]; ok && other != name {
			b.fail(name, NameCollision, "Kafka does not tell it from %q: they differ in . and _ alone", other)
		}
		plain[key] = name
	}
	for _, t := range b.topicOrder {
		check(t.name, t.internal)
	}
	if name := b.handling.DeadLetterTopic; name != "" {
		check(name, false)
	}
	clear(plain)
	for _, d := range b.storeOrder {
		check(d.spec.Name, true)
	}
}

func (b *Builder) checkTopics() {
	sources := 0
	for _, t := range b.topicOrder {
		if t.source != nil {
			sources++
		}
		if t.internal && t.source == nil {
			b.fail(t.name, NeverRead, "read it with Through or FromRepartition, or use a topic of your own")
		}
		if t.internal && !t.written {
			b.fail(t.name, NeverWritten, "write it with Through or ToRepartition, or read a topic of your own")
		}
	}
	if sources == 0 {
		b.fail("topology", NoSources, "read at least one topic with From")
	}
}

func (b *Builder) checkStores() {
	for _, d := range b.storeOrder {
		switch {
		case len(d.users) > 0 || d.global != nil && d.global.kept:
		case d.global != nil:
			b.fail(d.spec.Name, UnusedStore, "read it in a processor or a join, or keep it for queries with AddGlobalStore")
		default:
			b.fail(d.spec.Name, UnusedStore, "connect it to a processor or leave it out")
		}
	}
}

// checkNodes finds streams that compute nothing.
func (b *Builder) checkNodes() {
	for _, n := range b.nodes {
		if len(n.children) == 0 && (n.kind == sourceKind || n.kind == operatorKind) {
			b.fail(n.name, DeadEnd, "write the stream somewhere, keep it in a store, or leave it out")
		}
	}
}

// checkCycles finds repartition topics that feed themselves, however long the way: their records would go round for
// ever, and no partition count has an origin there. A loop through a topic that the application does not own is legal,
// as in Kafka Streams: others may take part in it, and its partition count is known.
func (b *Builder) checkCycles() {
	for _, t := range b.topicOrder {
		if t.internal && t.source != nil && reaches(t.source, t, map[*node]bool{}) {
			b.fail(t.source.name, Cycle, "repartition topic %q feeds itself", t.name)
		}
	}
}

func reaches(n *node, t *topicNode, seen map[*node]bool) bool {
	if seen[n] {
		return false
	}
	seen[n] = true
	next := n.children
	if n.kind == sinkKind && n.topic.internal {
		if n.topic == t {
			return true
		}
		if n.topic.source != nil {
			next = []*node{n.topic.source}
		}
	}
	return slices.ContainsFunc(next, func(c *node) bool { return reaches(c, t, seen) })
}

// components are the nodes that belong together, in the order of their first sources.
func (b *Builder) components() (all [][]*node) {
	root := make([]int, len(b.nodes))
	for i := range root {
		root[i] = i
	}
	var find func(int) int
	find = func(i int) int {
		if root[i] != i {
			root[i] = find(root[i])
		}
		return root[i]
	}
	join := func(x, y *node) {
		i, j := find(x.index), find(y.index)
		root[max(i, j)] = min(i, j)
	}
	for _, n := range b.nodes {
		for _, p := range n.parents {
			join(n, p)
		}
	}
	for _, d := range b.storeOrder {
		if d.global != nil {
			continue // every node has all of it, so it ties nobody together
		}
		for _, u := range d.users[1:] {
			join(d.users[0], u)
		}
	}
	number := map[int]int{}
	for _, n := range b.nodes {
		if r := find(n.index); n.kind == sourceKind {
			if _, ok := number[r]; !ok {
				number[r] = len(all)
				all = append(all, nil)
			}
		}
	}
	for _, n := range b.nodes {
		if i, ok := number[find(n.index)]; ok {
			all[i] = append(all[i], n)
		}
	}
	return all
}
