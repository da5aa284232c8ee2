package topology

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

type kind int

const (
	sourceKind kind = iota
	operatorKind
	effectKind // may be the end of a stream
	aggregateKind
	sinkKind
)

// node is one node without its types. make is its generic half: it returns the closure that takes the node's input,
// as any; the only conversion back is at instantiation.
type node struct {
	index             int
	name              string
	kind              kind
	topic             *topicNode
	parents, children []*node
	stores            []string
	windows           string // for Describe
	make              func(in *Instance, n *node) any
}

type topicNode struct {
	name       string
	internal   bool
	codecs     string
	reset      Reset
	partitions int32
	source     *node
	written    bool
	globals    []*storeNode
}

type storeNode struct {
	spec StoreSpec
	// global is nil for a store that is not.
	global    *globalNode
	users     []*node
	aggregate *node
}

// Builder collects the nodes of a topology. It is for one goroutine. Mistakes are kept for Build.
type Builder struct {
	nodes      []*node
	byName     map[string]*node
	topics     map[string]*topicNode
	topicOrder []*topicNode
	stores     map[string]*storeNode
	storeOrder []*storeNode
	handling   handling
	errs       []error
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder {
	return &Builder{byName: map[string]*node{}, topics: map[string]*topicNode{}, stores: map[string]*storeNode{}}
}

func (b *Builder) fail(node string, reason Reason, format string, args ...any) {
	b.errs = append(b.errs, &BuildError{Node: node, Reason: reason, Detail: fmt.Sprintf(format, args...)})
}

// add makes a node. An empty name is derived from the operator and the node's number, so that the same calls give the
// same names.
func (b *Builder) add(name, operator string, k kind, parents ...*node) *node {
	if name == "" {
		name = fmt.Sprintf("%s-%010d", operator, len(b.nodes))
	}
	n := &node{index: len(b.nodes), name: name, kind: k, parents: parents}
	if b.byName[name] != nil {
		b.fail(name, DuplicateNode, "give one of the two another name")
	}
	b.byName[name] = n
	b.nodes = append(b.nodes, n)
	for _, p := range parents {
		if p.index >= len(b.nodes) || b.nodes[p.index] != p {
			b.fail(name, OtherBuilder, "connect only streams of one builder")
			continue
		}
		p.children = append(p.children, n)
	}
	return n
}

func (b *Builder) topic(name string, internal bool, codecs string, partitions int32) *topicNode {
	key := name
	if internal {
		key = RepartitionTopic("", name)
	}
	t := b.topics[key]
	if t == nil {
		t = &topicNode{name: name, internal: internal, codecs: codecs, partitions: partitions}
		b.topics[key] = t
		b.topicOrder = append(b.topicOrder, t)
	}
	if t.codecs != codecs {
		b.fail(name, CodecMismatch, "it is used with %s and with %s; declare the topic once", t.codecs, codecs)
	}
	if t.partitions != partitions {
		b.fail(name, ConflictingSettings, "it is declared with %d and with %d partitions; declare it once", t.partitions, partitions)
	}
	if partitions < 0 {
		b.fail(name, InvalidPartitions, "%d is not above 0", partitions)
	}
	return t
}

func codecNames[K, V any](b *Builder, name string, keys codec.Codec[K], values codec.Codec[V]) string {
	if keys == nil || values == nil {
		b.fail(name, MissingCodec, "give it a key codec and a value codec")
		return "nothing"
	}
	return keys.Name() + "/" + values.Name()
}

// AddStore declares stores before a processor uses them by name (Connect). Process and the aggregations declare theirs.
func (b *Builder) AddStore(stores ...Store) {
	for _, s := range stores {
		d := s.declaration()
		old := b.stores[d.spec.Name]
		switch {
		case d.spec.KeyCodec == "":
			b.fail(d.spec.Name, MissingCodec, "give it a key codec and a value codec")
		case d.spec.Kind != keyValueKind && d.spec.Retention < time.Millisecond:
			b.fail(d.spec.Name, ShortRetention, "%s keeps nothing; give it at least the windows' size and grace", d.spec.Retention)
		case d.spec.Kind == windowKind && d.spec.WindowSize < time.Millisecond:
			b.fail(d.spec.Name, InvalidWindows, "a window size of %s is not above 0 ms", d.spec.WindowSize)
		case old == nil:
		case (old.global == nil) != (d.global == nil):
			b.fail(d.spec.Name, GlobalStoreWritten, "its topic is its only writer; read it by the handle of NewGlobalStore, or give the other store another name")
		case !old.same(d):
			b.fail(d.spec.Name, DuplicateStore, "two stores have this name; declare the store once")
		}
		if old == nil {
			b.stores[d.spec.Name] = d
			b.storeOrder = append(b.storeOrder, d)
			if d.global != nil {
				b.addGlobal(d)
			}
		}
	}
}

// same says that two declarations mean the same store.
func (d *storeNode) same(other *storeNode) bool {
	s, o := &d.spec, &other.spec
	return (d.global == nil || d.global.topic == other.global.topic) && s.Kind == o.Kind && s.KeyCodec == o.KeyCodec && s.ValueCodec == o.ValueCodec && s.Changelog == o.Changelog &&
		s.WindowSize == o.WindowSize && s.Retention == o.Retention && s.InMemory == o.InMemory
}

// Connect lets the processor called node open stores that were added, by name.
func (b *Builder) Connect(node string, stores ...string) {
	n := b.byName[node]
	if n == nil {
		b.fail(node, UnknownNode, "add the processor before it is connected")
		return
	}
	for _, s := range stores {
		d := b.stores[s]
		if d == nil {
			b.fail(node, UnknownStore, "add store %q before it is connected", s)
			continue
		}
		n.stores = append(n.stores, s)
		d.users = append(d.users, n)
	}
}

func (b *Builder) use(n *node, stores ...Store) {
	b.AddStore(stores...)
	for _, s := range stores {
		n.stores = append(n.stores, s.StoreName())
		d := b.stores[s.StoreName()]
		d.users = append(d.users, n)
	}
}

// Stream is the records that leave a node. The zero Stream is not usable.
type Stream[K, V any] struct {
	b *Builder
	n *node
}

type handler[K, V any] = func(record.Record[K, V]) error

// outs joins the inputs of a node's children to one closure; which children there are is decided once, here.
func outs[K, V any](in *Instance, n *node) handler[K, V] {
	all := make([]handler[K, V], len(n.children))
	for i, c := range n.children {
		all[i] = in.enter(c).(handler[K, V])
	}
	switch len(all) {
	case 0:
		return func(record.Record[K, V]) error { return nil }
	case 1:
		return all[0]
	}
	return func(r record.Record[K, V]) error {
		for _, f := range all {
			if err := f(r); err != nil {
				return err
			}
		}
		return nil
	}
}
