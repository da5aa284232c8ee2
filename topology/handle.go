package topology

import (
	"maps"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

// Reset says where a source starts in a partition that has no committed offset.
type Reset int

// The reset policies. FailReset stops the node instead of choosing.
const (
	Earliest Reset = iota
	Latest
	FailReset
)

func (r Reset) String() string { return [...]string{"earliest", "latest", "fail"}[r] }

// Topic is a typed name of a Kafka topic that the application does not own. Declare it once, use it everywhere.
type Topic[K, V any] struct {
	name      string
	keys      codec.Codec[K]
	values    codec.Codec[V]
	reset     Reset
	timestamp func(record.Record[K, V]) int64
}

// NewTopic declares a topic. It resets to Earliest and takes the records' own timestamps.
func NewTopic[K, V any](name string, keys codec.Codec[K], values codec.Codec[V]) Topic[K, V] {
	return Topic[K, V]{name: name, keys: keys, values: values}
}

// Name is the topic's name in Kafka.
func (t Topic[K, V]) Name() string { return t.name }

// KeyCodec says how its records' keys are written.
func (t Topic[K, V]) KeyCodec() codec.Codec[K] { return t.keys }

// ValueCodec says how its records' values are written.
func (t Topic[K, V]) ValueCodec() codec.Codec[V] { return t.values }

// WithReset returns the topic with another reset policy.
func (t Topic[K, V]) WithReset(r Reset) Topic[K, V] { t.reset = r; return t }

// WithTimestamp returns the topic with a timestamp extractor: f gives a record's timestamp in milliseconds since the
// Unix epoch. A record for which it is negative is dropped and counted ("negative timestamp").
func (t Topic[K, V]) WithTimestamp(f func(record.Record[K, V]) int64) Topic[K, V] {
	t.timestamp = f
	return t
}

// Repartition is a typed name of a topic that the application owns and writes to itself, so that records with one key
// meet in one task. In Kafka it is called <app>-<name>-repartition.
type Repartition[K, V any] struct {
	name       string
	keys       codec.Codec[K]
	values     codec.Codec[V]
	partitions int32
}

// NewRepartition declares a repartition topic with as many partitions as the largest topic upstream of it.
func NewRepartition[K, V any](name string, keys codec.Codec[K], values codec.Codec[V]) Repartition[K, V] {
	return Repartition[K, V]{name: name, keys: keys, values: values}
}

// Name is the logical name.
func (r Repartition[K, V]) Name() string { return r.name }

// WithPartitions returns the topic with a partition count of its own. n must be above 0.
func (r Repartition[K, V]) WithPartitions(n int32) Repartition[K, V] { r.partitions = n; return r }

// The kinds of stores.
const (
	keyValueKind = "key-value"
	windowKind   = "window"
	sessionKind  = "session"
)

// Store is a store of any type, as Process and AddStore take it.
type Store interface {
	StoreName() string
	StoreKind() string
	declaration() *storeNode
}

// KeyValueStore is a typed name of a key-value store, used in the topology, in processors, in queries and in tests.
type KeyValueStore[K, V any] struct {
	name        string
	keys        codec.Codec[K]
	values      codec.Codec[V]
	noChangelog bool
	inMemory    bool
	config      map[string]string
}

// NewKeyValueStore declares a store. Its changelog topic in Kafka is <app>-<name>-changelog.
func NewKeyValueStore[K, V any](name string, keys codec.Codec[K], values codec.Codec[V]) KeyValueStore[K, V] {
	return KeyValueStore[K, V]{name: name, keys: keys, values: values}
}

// WithoutChangelog returns the store without its changelog: its content is lost with the state directory.
func (s KeyValueStore[K, V]) WithoutChangelog() KeyValueStore[K, V] { s.noChangelog = true; return s }

// InMemory returns the store kept in memory only: nothing of it is on disk, and every start restores the whole changelog.
// It must fit into memory, once for each partition on a node.
func (s KeyValueStore[K, V]) InMemory() KeyValueStore[K, V] { s.inMemory = true; return s }

// WithChangelogConfig returns the store with topic settings of its own for the changelog, by Kafka's names.
func (s KeyValueStore[K, V]) WithChangelogConfig(config map[string]string) KeyValueStore[K, V] {
	s.config = maps.Clone(config)
	return s
}

// StoreName is the store's name.
func (s KeyValueStore[K, V]) StoreName() string { return s.name }

// StoreKind is "key-value".
func (s KeyValueStore[K, V]) StoreKind() string { return keyValueKind }

// KeyCodec says how its keys are written.
func (s KeyValueStore[K, V]) KeyCodec() codec.Codec[K] { return s.keys }

// ValueCodec says how its values are written.
func (s KeyValueStore[K, V]) ValueCodec() codec.Codec[V] { return s.values }

func (s KeyValueStore[K, V]) declaration() *storeNode {
	d := &storeNode{spec: StoreSpec{Name: s.name, Kind: s.StoreKind(), Changelog: !s.noChangelog, InMemory: s.inMemory, ChangelogConfig: maps.Clone(s.config)}}
	if s.keys != nil && s.values != nil {
		d.spec.KeyCodec, d.spec.ValueCodec, d.spec.KeyOrdered = s.keys.Name(), s.values.Name(), s.keys.Ordered()
		d.spec.ParseKey = func(text string) ([]byte, error) {
			key, err := s.keys.ParseText(text)
			if err != nil {
				return nil, err
			}
			return s.keys.Encode([]byte{}, key)
		}
		d.spec.FormatKey, d.spec.FormatValue = formatter(s.keys), formatter(s.values)
	}
	return d
}

func formatter[T any](c codec.Codec[T]) func([]byte) (string, error) {
	return func(b []byte) (string, error) {
		v, err := c.Decode(b)
		if err != nil {
			return "", err
		}
		return c.FormatText(v), nil
	}
}
