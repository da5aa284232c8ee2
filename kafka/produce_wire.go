package kafka

import (
	"encoding/binary"

	"github.com/millrace-io/millrace/record"
)

// produce is a request with one batch each of some partitions.
type produce struct {
	clientID, transactionalID string
	codec                     int8
}

// producedPart is a broker's word about one batch.
type producedPart struct {
	code int16
	base int64
	// refused are the records, by their place in the batch, that the broker names as the reason for code.
	refused []int32
	message string
}

// produceTimeoutMS is how long a broker waits for its replicas.
const produceTimeoutMS = 10_000

// encode gives the request in parts. The batches' memory is in them.
func (r *produce) encode(batches []numbered) [][]byte {
	b := newRequest(make([]byte, 0, 128+(headBytes+64)*len(batches)), apiProduce, produceVersion, r.clientID)
	if r.transactionalID == "" {
		b = binary.BigEndian.AppendUint16(b, 0xffff)
	} else {
		b = appendString(b, r.transactionalID)
	}
	b = binary.BigEndian.AppendUint16(b, 0xffff) // all replicas in sync
	b = appendInt32(b, produceTimeoutMS)
	topics := map[string][]numbered{}
	for _, n := range batches {
		topics[n.To.Topic] = append(topics[n.To.Topic], n)
	}
	// cuts are the places in b at which records come, which stay where they are.
	cuts, records := make([]int, 0, len(batches)), make([][]byte, 0, len(batches))
	b = appendInt32(b, int32(len(topics)))
	for topic, batches := range topics {
		b = appendString(b, topic)
		b = appendInt32(b, int32(len(batches)))
		for _, n := range batches {
			payload, codec := n.payload(r.codec)
			b = appendInt32(b, n.To.Partition)
			b = appendInt32(b, int32(headBytes+len(payload)))
			b = n.appendHead(b, n.pid, n.epoch, codec, r.transactionalID != "", payload)
			cuts, records = append(cuts, len(b)), append(records, payload)
		}
	}
	parts, at := make([][]byte, 0, 2*len(cuts)), 0
	for i, cut := range cuts {
		parts = append(parts, b[at:cut], records[i])
		at = cut
	}
	return parts
}

// numbered is a batch with what it is sent under, besides its sequence.
type numbered struct {
	*batch
	pid   int64
	epoch int16
}

func decodeProduce(answer []byte) (map[record.TopicPartition]producedPart, error) {
	f := fields{rest: answer}
	all := map[record.TopicPartition]producedPart{}
	for range f.count() {
		topic := f.string()
		for range f.count() {
			partition := f.int32()
			p := producedPart{code: f.int16(), base: f.int64()}
			f.int64() // time of the append
			f.int64() // log start
			for range f.count() {
				p.refused = append(p.refused, f.int32())
				f.string()
			}
			p.message = f.string()
			all[record.TopicPartition{Topic: topic, Partition: partition}] = p
		}
	}
	if f.broken {
		return nil, malformed("the answer to a produce request ends too early")
	}
	return all, nil
}
