package kafka

import (
	"context"

	"github.com/millrace-io/millrace/record"
)

// fetch is a request for records.
type fetch struct {
	waitMS, answerBytes int32
	committed           bool
	parts               []fetchPart
}

// fetchPart is one partition of it.
type fetchPart struct {
	tp    record.TopicPartition
	epoch int32 // of the leader
	at    int64
	bytes int32
}

// fetched is what came of one partition. records are whole batches of the log, and perhaps a part of one more; they share the
// answer's memory.
type fetched struct {
	code                      int16
	highWatermark, lastStable int64
	logStart                  int64
	aborted                   []abortedTransaction
	records                   []byte
}

type abortedTransaction struct{ producer, first int64 }

// encode gives the request's frame.
func (r *fetch) encode(clientID string) []byte {
	b := newRequest(make([]byte, 0, 128+64*len(r.parts)), apiFetch, fetchVersion, clientID)
	b = appendInt32(b, -1) // no replica
	b = appendInt32(b, r.waitMS)
	b = appendInt32(b, 1)
	b = appendInt32(b, r.answerBytes)
	isolation := byte(0)
	if r.committed {
		isolation = 1
	}
	b = append(b, isolation)
	b = appendInt32(b, 0) // no session: its epoch is -1
	b = appendInt32(b, -1)
	topics := r.byTopic()
	b = appendInt32(b, int32(len(topics)))
	for topic, parts := range topics {
		b = appendString(b, topic)
		b = appendInt32(b, int32(len(parts)))
		for _, p := range parts {
			b = appendInt32(b, p.tp.Partition)
			b = appendInt32(b, p.epoch)
			b = appendInt64(b, p.at)
			b = appendInt64(b, -1) // log start: a follower's
			b = appendInt32(b, p.bytes)
		}
	}
	b = appendInt32(b, 0)      // nothing is taken out of the session
	return appendString(b, "") // rack
}

// byTopic groups the partitions. Their order is left to chance: a broker fills an answer in the order of the request, and
// what is named last in every one would starve.
func (r *fetch) byTopic() map[string][]fetchPart {
	topics := map[string][]fetchPart{}
	for _, p := range r.parts {
		topics[p.tp.Topic] = append(topics[p.tp.Topic], p)
	}
	return topics
}

// ask makes the request. Its error is the library's for an answer that cannot be read, or the connection's.
func (r *fetch) ask(ctx context.Context, to *link) (map[record.TopicPartition]*fetched, error) {
	answer, err := exchange(ctx, to, r.encode(to.cfg.clientID()))
	if err != nil {
		return nil, err
	}
	return decodeFetch(answer)
}

func decodeFetch(answer []byte) (map[record.TopicPartition]*fetched, error) {
	f := fields{rest: answer}
	f.int32() // throttled for so long
	code := f.int16()
	f.int32() // session
	all := map[record.TopicPartition]*fetched{}
	for range f.count() {
		topic := f.string()
		for range f.count() {
			partition := f.int32()
			p := &fetched{code: f.int16(), highWatermark: f.int64(), lastStable: f.int64(), logStart: f.int64()}
			for range f.count() {
				p.aborted = append(p.aborted, abortedTransaction{f.int64(), f.int64()})
			}
			f.int32() // preferred replica
			p.records = f.bytes()
			if code != 0 {
				p.code = code
			}
			all[record.TopicPartition{Topic: topic, Partition: partition}] = p
		}
	}
	if f.broken {
		return nil, malformed("the answer to a fetch ends too early")
	}
	return all, nil
}
