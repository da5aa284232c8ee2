package topology

import (
	"iter"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

// GlobalStore is a typed name of a global store: every partition of one topic, in one key-value store on every node. It is
// Kafka Streams' global table, used in processors, joins, queries and tests.
//
// A node has read the topic up to its end before its threads start, and follows it from then on. So each node answers for
// every key, whatever the topic is partitioned by, and nobody has to co-partition with it. The topic is the store's only
// writer and its changelog; a record without a value deletes. What a join finds is the table as it is at that moment: it
// follows the topic by itself, and is not taken back with a transaction of the node.
//
// The keys of the topic have to say which record they replace: of one key in two partitions, whichever comes last counts.
type GlobalStore[K, V any] struct {
	name     string
	topic    Topic[K, V]
	inMemory bool
}

// NewGlobalStore declares the global store of a topic. The topic may have no reset policy and no timestamp extractor: the
// store reads from the beginning, and its entries have the timestamps of their records.
func NewGlobalStore[K, V any](name string, topic Topic[K, V]) GlobalStore[K, V] {
	return GlobalStore[K, V]{name: name, topic: topic}
}

// InMemory returns the store kept in memory only: nothing of it is on disk, and every start reads the whole topic. It must
// fit into memory, once for each node.
func (s GlobalStore[K, V]) InMemory() GlobalStore[K, V] { s.inMemory = true; return s }

// StoreName is the store's name.
func (s GlobalStore[K, V]) StoreName() string { return s.name }

// StoreKind is "key-value", since it is read as such.
func (s GlobalStore[K, V]) StoreKind() string { return keyValueKind }

// StoreGlobal says that every node has all of it, so that a query need not look for a key's partition.
func (s GlobalStore[K, V]) StoreGlobal() bool { return true }

// KeyCodec says how its keys are written: as the topic's.
func (s GlobalStore[K, V]) KeyCodec() codec.Codec[K] { return s.topic.keys }

// ValueCodec says how its values are written: as the topic's.
func (s GlobalStore[K, V]) ValueCodec() codec.Codec[V] { return s.topic.values }

func (s GlobalStore[K, V]) declaration() *storeNode {
	d := KeyValueStore[K, V]{name: s.name, keys: s.topic.keys, values: s.topic.values, noChangelog: true, inMemory: s.inMemory}.declaration()
	d.global = &globalNode{topic: s.topic.name, reset: s.topic.reset, extracts: s.topic.timestamp != nil}
	if d.spec.KeyCodec == "" {
		return d
	}
	r := readerOf(s.name, s.topic)
	d.global.codecs = d.spec.KeyCodec + "/" + d.spec.ValueCodec
	d.global.check = func(raw *record.Raw) error {
		if err := r.key(raw.Key); err != nil {
			return &DeserializationError{Source: s.name, Topic: s.topic.name, Part: "key", Cause: err}
		}
		if raw.Value == nil {
			return nil
		}
		if err := r.value(raw.Value); err != nil {
			return &DeserializationError{Source: s.name, Topic: s.topic.name, Part: "value", Cause: err}
		}
		return nil
	}
	return d
}

// globalNode is what a store has that is global.
type globalNode struct {
	topic, codecs string
	reset         Reset
	extracts      bool
	// kept says that it is there for queries, whoever reads it besides.
	kept  bool
	check func(*record.Raw) error
}

// GlobalSpec is a global store of a topology.
type GlobalSpec struct {
	StoreSpec
	// Topic is the name in Kafka.
	Topic string
	// Check reads a record that has a key with the store's codecs: nil or a *DeserializationError. It lets their panics
	// through.
	Check func(*record.Raw) error
}

// AddGlobalStore keeps global stores for queries alone. Those that a processor or a join reads need not be added.
func (b *Builder) AddGlobalStore(stores ...Store) {
	for _, s := range stores {
		b.AddStore(s)
		d := b.stores[s.StoreName()]
		if d.global == nil {
			b.fail(d.spec.Name, ConflictingSettings, "it is no global store; declare it with NewGlobalStore, or add it with AddStore")
			continue
		}
		d.global.kept = true
	}
}

// addGlobal checks a global store that is new, and notes its topic.
func (b *Builder) addGlobal(d *storeNode) {
	g := d.global
	if d.spec.KeyCodec == "" {
		return // that was said
	}
	if g.reset != Earliest || g.extracts {
		b.fail(d.spec.Name, ConflictingSettings, "a global store reads topic %q from the beginning with the records' own timestamps; leave reset policy and extractor out", g.topic)
	}
	t := b.topic(g.topic, false, g.codecs, 0)
	t.globals = append(t.globals, d)
}

// checkGlobals finds topics that are more than one global store's: what reads them twice would be ahead of itself.
func (b *Builder) checkGlobals() {
	for _, t := range b.topicOrder {
		if len(t.globals) == 0 {
			continue
		}
		name := t.globals[0].spec.Name
		if t.source != nil {
			b.fail(t.name, GlobalTopicRead, "it is global store %q and is read as source %q; read it once, and write a copy for the other", name, t.source.name)
		}
		for _, other := range t.globals[1:] {
			b.fail(t.name, GlobalTopicRead, "it is global store %q and global store %q; use one store for both", name, other.spec.Name)
		}
	}
}

// globals are the topology's global stores, in the order of their declaration.
func (b *Builder) globals() (all []GlobalSpec) {
	for _, d := range b.storeOrder {
		if g := d.global; g != nil {
			all = append(all, GlobalSpec{StoreSpec: d.spec, Topic: g.topic, Check: g.check})
		}
	}
	return all
}

// GlobalState is a global store as bytes, as all tasks of a node read it.
//
// Both read what is there now, and wait while the store is being built anew; an error is the engine's, or that it is not
// there in time.
type GlobalState interface {
	// Get gives a copy of the value; ok is false if there is none.
	Get(key []byte) (value []byte, timestamp int64, ok bool, err error)
	// Scan gives the entries between from and to, both included, in byte order or backwards; a nil bound is open. An error
	// is the last thing that is yielded.
	Scan(from, to []byte, reverse bool) iter.Seq2[GlobalEntry, error]
}

// GlobalEntry is one entry of a GlobalState. It belongs to the receiver.
type GlobalEntry struct {
	Key, Value []byte
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
}

// GlobalKeyValue is a global store as a processor sees it: it can be read and not written. It is for the task's goroutine
// only.
type GlobalKeyValue[K, V any] struct {
	table[K, V]
	global GlobalState
}

// In opens the store in a processor's Init. It is an error if the store is not connected to the processor.
func (s GlobalStore[K, V]) In(ctx StoreContext) (*GlobalKeyValue[K, V], error) {
	state, err := ctx.openGlobal(s.name)
	if err != nil {
		return nil, err
	}
	return s.open(state), nil
}

func (s GlobalStore[K, V]) open(state GlobalState) *GlobalKeyValue[K, V] {
	return &GlobalKeyValue[K, V]{newTable(s.name, s.topic.keys, s.topic.values, nil), state}
}

// Get gives the value of key; found is false if there is none. Its error is a
// *StoreError: the key cannot be encoded, the value cannot be decoded, or the store cannot be read.
func (s *GlobalKeyValue[K, V]) Get(key K) (value V, found bool, err error) {
	value, _, found, err = s.GetTimestamped(key)
	return value, found, err
}

// GetTimestamped is Get with the timestamp, in milliseconds since the Unix epoch.
func (s *GlobalKeyValue[K, V]) GetTimestamped(key K) (value V, timestamp int64, found bool, err error) {
	if s.key, err = s.keys.Encode(s.key[:0], key); err != nil {
		return value, 0, false, storeError(s.name, err)
	}
	b, timestamp, found, err := s.global.Get(present(s.key))
	if err != nil || !found {
		return value, 0, false, storeError(s.name, err)
	}
	value, err = s.values.Decode(present(b))
	return value, timestamp, err == nil, storeError(s.name, err)
}

// Range gives the entries from from to to, both included, in the order of the keys. It is a *RangeError if the key codec is
// not Ordered, or if from is above to. An error is the last thing that is yielded.
func (s *GlobalKeyValue[K, V]) Range(from, to K) iter.Seq2[Entry[K, V], error] {
	return s.between(&from, &to, false)
}

// ReverseRange is Range backwards.
func (s *GlobalKeyValue[K, V]) ReverseRange(from, to K) iter.Seq2[Entry[K, V], error] {
	return s.between(&from, &to, true)
}

// All gives every entry by the byte order of the encoded keys, with any codec.
func (s *GlobalKeyValue[K, V]) All() iter.Seq2[Entry[K, V], error] { return s.between(nil, nil, false) }

// ReverseAll is All backwards.
func (s *GlobalKeyValue[K, V]) ReverseAll() iter.Seq2[Entry[K, V], error] {
	return s.between(nil, nil, true)
}

func (s *GlobalKeyValue[K, V]) between(from, to *K, reverse bool) iter.Seq2[Entry[K, V], error] {
	return func(yield func(Entry[K, V], error) bool) {
		low, high, err := s.bounds(from, to)
		if err != nil {
			yield(Entry[K, V]{}, storeError(s.name, err))
			return
		}
		for g, err := range s.global.Scan(low, high, reverse) {
			var e Entry[K, V]
			if err == nil {
				e, err = s.entry(g)
			}
			if !yield(e, storeOnce(s.name, err)) || err != nil {
				return
			}
		}
	}
}

func (s *GlobalKeyValue[K, V]) entry(g GlobalEntry) (Entry[K, V], error) {
	key, err := s.keys.Decode(present(g.Key))
	if err != nil {
		return Entry[K, V]{}, err
	}
	value, err := s.values.Decode(present(g.Value))
	return Entry[K, V]{Key: key, Value: value, Timestamp: g.Timestamp}, err
}
