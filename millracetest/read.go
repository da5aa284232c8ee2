package millracetest

import (
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// Output is a record that a topology has written, and where it lies.
type Output[K, V any] struct {
	record.Record[K, V]
	Partition int32
	Offset    int64
}

// Read gives what was written to a topic since the last Read of it, by partition and in the order of each. A record that
// the topic's codecs cannot read fails the test. The topic may be one that the topology reads, too.
func Read[K, V any](d *Driver, from topology.Topic[K, V]) (all []Output[K, V]) {
	d.tb.Helper()
	for p := range d.topics.counts[from.Name()] {
		tp := record.TopicPartition{Topic: from.Name(), Partition: p}
		for _, raw := range ReadRaw(d, tp) {
			r, err := decode(from, raw)
			if err != nil {
				d.tb.Fatalf("millracetest: %s offset %d: %v", tp, raw.Offset, err)
			}
			all = append(all, Output[K, V]{r, p, raw.Offset})
		}
	}
	return all
}

func decode[K, V any](from topology.Topic[K, V], raw record.Raw) (r record.Record[K, V], err error) {
	r.Timestamp, r.Headers = raw.Timestamp, raw.Headers
	if r.NoKey = raw.Key == nil; !r.NoKey {
		if r.Key, err = from.KeyCodec().Decode(raw.Key); err != nil {
			return r, err
		}
	}
	if r.NoValue = raw.Value == nil; !r.NoValue {
		r.Value, err = from.ValueCodec().Decode(raw.Value)
	}
	return r, err
}

// ReadRaw gives what was written to a partition since the last Read of it: outputs, dead letters, repartition topics and
// changelogs by Kafka's names (the application id is "driver").
func ReadRaw(d *Driver, from record.TopicPartition) []record.Raw {
	records := d.topics.logs[from][d.topics.read[from]:]
	d.topics.read[from] += len(records)
	return records
}

// Latest folds outputs into the last value of each key; a tombstone takes the key out.
func Latest[K comparable, V any](outputs []Output[K, V]) map[K]V {
	last := map[K]V{}
	for _, o := range outputs {
		if o.NoValue {
			delete(last, o.Key)
		} else {
			last[o.Key] = o.Value
		}
	}
	return last
}
