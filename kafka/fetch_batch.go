package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// What a batch of the log looks like (format 2, Kafka 0.11; earlier ones are not read): 61 bytes, then the records, perhaps
// compressed. The length counts what is behind it, the checksum what is behind that.
const (
	headBytes       = 61
	lengthAt        = 8
	epochAt         = 12
	magicAt         = 16
	checksumAt      = 17
	attributesAt    = 21
	lastDeltaAt     = 23
	firstTimeAt     = 27
	maxTimeAt       = 35
	producerAt      = 43
	producerEpochAt = 51
	sequenceAt      = 53
	countAt         = 57

	attributeCodec         = 0x07
	attributeLogAppendTime = 0x08
	attributeTransactional = 0x10
	attributeControl       = 0x20

	// leastRecord is the least that a record takes: seven numbers of a byte each.
	leastRecord = 7
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// logBatch is one batch as the log holds it.
type logBatch struct {
	bytes      []byte // head and records
	first      int64  // offset
	attributes int16
	count      int
}

func (b *logBatch) last() int64 {
	return b.first + int64(int32(binary.BigEndian.Uint32(b.bytes[lastDeltaAt:])))
}
func (b *logBatch) epoch() int32     { return int32(binary.BigEndian.Uint32(b.bytes[epochAt:])) }
func (b *logBatch) producer() int64  { return int64(binary.BigEndian.Uint64(b.bytes[producerAt:])) }
func (b *logBatch) firstTime() int64 { return int64(binary.BigEndian.Uint64(b.bytes[firstTimeAt:])) }
func (b *logBatch) maxTime() int64   { return int64(binary.BigEndian.Uint64(b.bytes[maxTimeAt:])) }
func (b *logBatch) control() bool    { return b.attributes&attributeControl != 0 }

// split takes the batch at the front of records. ok is false at the end: a broker fills an answer to the last byte, so
// the last batch may be a part of one.
func split(records []byte) (b logBatch, rest []byte, ok bool, err error) {
	if len(records) < headBytes {
		return b, nil, false, nil
	}
	size := int(int32(binary.BigEndian.Uint32(records[lengthAt:]))) + epochAt
	switch {
	case records[magicAt] != 2:
		return b, nil, false, malformed("the log holds records in a format from before Kafka 0.11")
	case size < headBytes:
		return b, nil, false, malformed("a batch has an impossible length")
	case size > len(records):
		return b, nil, false, nil
	}
	b = logBatch{
		bytes: records[:size:size], first: int64(binary.BigEndian.Uint64(records)),
		attributes: int16(binary.BigEndian.Uint16(records[attributesAt:])), count: int(int32(binary.BigEndian.Uint32(records[countAt:]))),
	}
	if b.count < 0 {
		return b, nil, false, malformed("a batch has an impossible number of records")
	}
	return b, records[size:], true, nil
}

// records are the records, as bytes, once their checksum and number were found right.
func (b *logBatch) records() ([]byte, error) {
	if crc32.Checksum(b.bytes[attributesAt:], castagnoli) != binary.BigEndian.Uint32(b.bytes[checksumAt:]) {
		return nil, malformed("a batch's checksum is wrong")
	}
	records, err := decompress(int8(b.attributes&attributeCodec), b.bytes[headBytes:])
	if err != nil {
		return nil, malformed("a batch cannot be decompressed: " + err.Error())
	}
	if b.count > len(records)/leastRecord {
		return nil, malformed("a batch has more records than it has room for")
	}
	return records, nil
}

// decodeBatches turns what was fetched of a partition into one batch for its consumer. Keys, values and headers share the
// answer's memory, unless it was compressed; the frames of all records are allocated at once.
func decodeBatches(tp record.TopicPartition, from int64, f *fetched, committed bool) (broker.Batch, error) {
	b := broker.Batch{Source: tp, From: from, Next: from, HighWatermark: f.highWatermark, LastStable: f.lastStable, LogStart: f.logStart, LeaderEpoch: -1}
	filter := newAbortedFilter(f.aborted, committed)
	wanted, n := make([]logBatch, 0, 16), 0
	for rest := f.records; ; {
		lb, after, ok, err := split(rest)
		if err != nil {
			return b, err
		}
		if !ok {
			break
		}
		rest = after
		// A batch may have lost all its records, but it is passed all the same: compaction keeps it for its producer's sequence.
		if last := lb.last(); last >= b.Next {
			b.Next, b.LeaderEpoch = last+1, lb.epoch()
		}
		skip, err := filter.skips(&lb)
		if err != nil {
			return b, err
		}
		if !skip && !lb.control() {
			wanted, n = append(wanted, lb), n+lb.count
		}
	}
	if n > 0 {
		b.Records = make([]record.Raw, 0, min(n, len(f.records)))
	}
	for i := range wanted {
		if err := appendRecords(&b, &wanted[i]); err != nil {
			return b, err
		}
	}
	return b, nil
}

// appendRecords decodes the records of one batch that are not before the position that was asked for.
func appendRecords(b *broker.Batch, lb *logBatch) error {
	rest, err := lb.records()
	if err != nil {
		return err
	}
	first, fixed := lb.firstTime(), lb.attributes&attributeLogAppendTime != 0
	at := len(b.Records)
	b.Records = slices.Grow(b.Records, lb.count)[:at+lb.count]
	kept := b.Records[:at]
	for range lb.count {
		r := &b.Records[len(kept)]
		var ok bool
		r.Headers = nil // of a record that was passed
		if rest, ok = takeRecord(rest, r); !ok {
			return malformed("a record in a batch cannot be read")
		}
		if r.Offset += lb.first; r.Offset < b.From {
			continue
		}
		if r.Timestamp += first; fixed {
			r.Timestamp = lb.maxTime()
		}
		b.Bytes += len(r.Key) + len(r.Value) + recordCost
		for i := range r.Headers {
			b.Bytes += len(r.Headers[i].Key) + len(r.Headers[i].Value) + headerCost
		}
		kept = b.Records[:len(kept)+1]
	}
	clear(b.Records[len(kept):])
	b.Records = kept
	return nil
}

// abortedFilter leaves out what a read_committed reader must not see: batches of a producer between the first offset of
// its aborted transaction and the abort's control record.
type abortedFilter struct {
	pending map[int64][]int64 // producer id → first offsets, ascending
	open    map[int64]bool
}

func newAbortedFilter(aborted []abortedTransaction, committed bool) *abortedFilter {
	f := &abortedFilter{}
	if committed && len(aborted) > 0 {
		f.pending, f.open = map[int64][]int64{}, map[int64]bool{}
		for _, a := range aborted {
			f.pending[a.producer] = append(f.pending[a.producer], a.first)
		}
		for _, firsts := range f.pending {
			slices.Sort(firsts) // a broker lists them by where they end
		}
	}
	return f
}

func (f *abortedFilter) skips(b *logBatch) (bool, error) {
	if f.pending == nil || b.attributes&attributeTransactional == 0 {
		return false, nil
	}
	producer := b.producer()
	if firsts := f.pending[producer]; len(firsts) > 0 && firsts[0] <= b.last() {
		f.pending[producer] = firsts[1:]
		f.open[producer] = true
	}
	if !b.control() {
		return f.open[producer], nil
	}
	abort, err := b.aborts()
	if abort {
		delete(f.open, producer)
	}
	return true, err
}

// aborts says that a control batch is an abort's. Its record's key is version (2 bytes) and type (2 bytes): 0 aborts.
func (b *logBatch) aborts() (bool, error) {
	records, err := b.records()
	if err != nil || b.count == 0 {
		return false, err
	}
	var r record.Raw
	if _, ok := takeRecord(records, &r); !ok {
		return false, malformed("a control record cannot be read")
	}
	return len(r.Key) >= 4 && r.Key[3] == 0, nil
}
