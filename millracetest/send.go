package millracetest

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// Record is a record for Send: what is not set is decided by the Driver.
type Record[K, V any] struct {
	record.Record[K, V]
	partition *int32
	timed     bool
}

// R is a record with a key and a value, at the Driver's time.
func R[K, V any](key K, value V) Record[K, V] {
	return Record[K, V]{Record: record.New(key, value, 0)}
}

// Keyless is a record without a key. It goes to partition 0 unless In says otherwise.
func Keyless[K, V any](value V) Record[K, V] {
	return Record[K, V]{Record: record.Record[K, V]{Value: value, NoKey: true}}
}

// Tombstone is a record without a value.
func Tombstone[K, V any](key K) Record[K, V] {
	return Record[K, V]{Record: record.Record[K, V]{Key: key, NoValue: true}}
}

// At is the record with a timestamp.
func (r Record[K, V]) At(t time.Time) Record[K, V] {
	r.Timestamp, r.timed = t.UnixMilli(), true
	return r
}

// In is the record in a partition of the test's choice, whatever its key.
func (r Record[K, V]) In(partition int32) Record[K, V] {
	r.partition = &partition
	return r
}

// With is the record with one more header.
func (r Record[K, V]) With(header string, value []byte) Record[K, V] {
	r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], record.Header{Key: header, Value: value})
	return r
}

// Send puts records into a topic that the topology reads, and runs it until all that follows is committed. It fails the
// test if a record fails, or cannot be written; see TrySend.
func Send[K, V any](d *Driver, to topology.Topic[K, V], records ...Record[K, V]) {
	if err := TrySend(d, to, records...); err != nil {
		d.tb.Helper() // not at every Send: it walks the stack
		d.tb.Fatalf("millracetest: sending to %s: %v", to.Name(), err)
	}
}

// TrySend is Send for a test of a failure. Its error is Run's, with others joined to it if other tasks failed too, or says which record cannot be written, in which case none was.
func TrySend[K, V any](d *Driver, to topology.Topic[K, V], records ...Record[K, V]) error {
	n, ok := d.topics.counts[to.Name()]
	if !ok {
		return fmt.Errorf("the topology has no topic %q", to.Name())
	}
	all := d.sending[:0]
	for i, r := range records {
		raw, err := encode(to, r)
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		tp := record.TopicPartition{Topic: to.Name(), Partition: r.into(raw, n)}
		if !r.timed {
			raw.Timestamp = d.clock.now().UnixMilli()
		}
		if tp.Partition < 0 || tp.Partition >= n {
			return fmt.Errorf("record %d: topic %q has no partition %d", i, to.Name(), tp.Partition)
		}
		all = append(all, broker.Outgoing{To: tp, Record: raw})
	}
	for _, out := range all {
		d.topics.append(out.To, out.Record)
	}
	clear(all)
	d.sending = all[:0]
	return d.run()
}

func (r Record[K, V]) into(raw record.Raw, n int32) int32 {
	switch {
	case r.partition != nil:
		return *r.partition
	case raw.Key == nil:
		return 0
	default:
		return record.Partition(raw.Key, n)
	}
}

func encode[K, V any](to topology.Topic[K, V], r Record[K, V]) (raw record.Raw, err error) {
	raw.Timestamp, raw.Headers = r.Timestamp, r.Headers
	if !r.NoKey {
		if raw.Key, err = to.KeyCodec().Encode([]byte{}, r.Key); err != nil {
			return raw, err
		}
	}
	if !r.NoValue {
		raw.Value, err = to.ValueCodec().Encode([]byte{}, r.Value)
	}
	return raw, err
}

// SendRaw puts bytes into a partition of a topic that the topology reads, whatever they mean, and runs it. Its error is
// TrySend's.
func SendRaw(d *Driver, to record.TopicPartition, r record.Raw) error {
	if to.Partition < 0 || to.Partition >= d.topics.counts[to.Topic] {
		return fmt.Errorf("the topology has no %s", to)
	}
	d.topics.append(to, copied(&r))
	return d.run()
}
