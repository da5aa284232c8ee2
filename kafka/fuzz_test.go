package kafka

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/record"
)

// readable fails unless err is what an answer that cannot be read is classified by.
func readable(t *testing.T, err error) {
	t.Helper()
	if malformed := (sarama.PacketDecodingError{}); err != nil && !errors.As(err, &malformed) {
		t.Fatalf("untyped: %v", err)
	}
}

// FuzzBatches: whatever batches a broker answers with, they are refused, or are records in the order of their offsets, none before
// the one that was asked for, and reading goes on behind the last. Checksums are made right first: they would keep all but what a
// broker has written away from what is behind them.
func FuzzBatches(f *testing.F) {
	records := []record.Raw{{Key: []byte("k"), Value: []byte("value"), Timestamp: 5, Headers: record.Headers{{Key: "h"}}}, {Value: []byte("w"), Timestamp: 6}}
	for codec := codecNone; codec <= codecZSTD; codec++ {
		f.Add(batchOfRecords(records, codec, 10), int64(10), true)
	}
	two := append(batchOfRecords(records, codecNone, 10), batchOfRecords(records, codecNone, 12)...)
	f.Add(two, int64(11), false)
	control := batchOfRecords([]record.Raw{{Key: []byte{0, 0, 0, 0}, Value: []byte{}}}, codecNone, 12)
	control[attributesAt+1] |= attributeControl | attributeTransactional
	two[attributesAt+1] |= attributeTransactional
	f.Add(append(two, control...), int64(0), true)
	f.Fuzz(func(t *testing.T, stored []byte, from int64, committed bool) {
		if len(stored) > 1<<16 {
			return
		}
		for rest := stored; ; {
			b, after, ok, err := split(rest)
			if err != nil || !ok {
				break
			}
			if compressed := int8(b.attributes&attributeCodec) == codecSnappy; compressed {
				if n, err := snappyLen(b.bytes[headBytes:]); err == nil && n > 1<<20 {
					return // a claim of 256 MiB is within the limit, but slow
				}
			}
			binary.BigEndian.PutUint32(b.bytes[checksumAt:], crc32.Checksum(b.bytes[attributesAt:], castagnoli))
			rest = after
		}
		got, err := decodeBatches(record.TopicPartition{}, from, &fetched{records: stored, aborted: []abortedTransaction{{7, 10}}}, committed)
		if readable(t, err); err != nil {
			return
		}
		if got.Next < from {
			t.Fatalf("from %d it goes back to %d", from, got.Next)
		}
		for _, r := range got.Records {
			if r.Offset < from {
				t.Fatalf("record %d comes before %d", r.Offset, from)
			}
		}
	})
}

// FuzzAnswers: whatever a broker answers to a fetch or to a produce request, it is refused or read.
func FuzzAnswers(f *testing.F) {
	fetch, produce := kmsg.NewPtrFetchResponse(), kmsg.NewPtrProduceResponse()
	fetch.Version, produce.Version = fetchVersion, produceVersion
	ft, pt := kmsg.NewFetchResponseTopic(), kmsg.NewProduceResponseTopic()
	fp, pp := kmsg.NewFetchResponseTopicPartition(), kmsg.NewProduceResponseTopicPartition()
	fp.RecordBatches, fp.AbortedTransactions = []byte("records"), []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 4, FirstOffset: 5}}
	pp.ErrorRecords = []kmsg.ProduceResponseTopicPartitionErrorRecord{{RelativeOffset: 6}}
	ft.Partitions, pt.Partitions = append(ft.Partitions, fp, fp), append(pt.Partitions, pp, pp)
	fetch.Topics, produce.Topics = append(fetch.Topics, ft), append(produce.Topics, pt)
	f.Add(fetch.AppendTo(nil))
	f.Add(produce.AppendTo(nil))
	f.Fuzz(func(t *testing.T, answer []byte) {
		all, err := decodeFetch(answer)
		if readable(t, err); err == nil {
			for _, p := range all {
				if len(p.records) > len(answer) || len(p.aborted) > len(answer) {
					t.Fatalf("%d bytes became %d", len(answer), len(p.records))
				}
			}
		}
		parts, err := decodeProduce(answer)
		if readable(t, err); err == nil {
			for _, p := range parts {
				if 4*len(p.refused) > len(answer) || len(p.message) > len(answer) {
					t.Fatalf("%d bytes became %+v", len(answer), p)
				}
			}
		}
	})
}

// FuzzScram: a broker that does not know the password is refused, whatever it sends, and what it sends is in no error.
func FuzzScram(f *testing.F) {
	f.Add(rfcFirst, rfcServer)
	f.Add("r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096", "v=")
	f.Add("", "e=other")
	f.Fuzz(func(t *testing.T, first, final string) {
		if scramFields(first)["i"] != "4096" {
			first += ",i=4095" // a higher count takes longer, and shows nothing more
		}
		s := rfcExchange(t)
		s.password = "another password"
		proof, err := s.Step(first)
		if (proof == "") != (err != nil) {
			t.Fatalf("%q: %q, %v", first, proof, err)
		}
		if err == nil {
			if _, err = s.Step(final); err == nil {
				t.Fatalf("%q and %q were believed", first, final)
			}
		}
		if len(final) > 40 && len(err.Error()) > 100 {
			t.Fatal(err)
		}
	})
}
