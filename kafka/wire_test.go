package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

func drawBytes(most int) *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		return rapid.SliceOfN(rapid.Byte(), 0, most).Draw(t, "bytes")
	})
}

func drawRecord(t *rapid.T) record.Raw {
	r := record.Raw{Key: drawBytes(200).Draw(t, "key"), Value: drawBytes(9000).Draw(t, "value"), Timestamp: rapid.Int64Range(0, 1<<60).Draw(t, "timestamp")}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		r.Headers = append(r.Headers, record.Header{Key: rapid.String().Draw(t, "name"), Value: drawBytes(20).Draw(t, "header")})
	}
	return r
}

// batchOfRecords is a sealed batch, as a broker would store it at an offset.
func batchOfRecords(records []record.Raw, codec int8, at int64) []byte {
	b := &batch{}
	for i := range records {
		b.add(&records[i], recordSize(&records[i]))
	}
	payload, codec := b.payload(codec)
	stored := append(b.appendHead(nil, 7, 3, codec, true, payload), payload...)
	binary.BigEndian.PutUint64(stored, uint64(at))
	return stored
}

// What is encoded is what another library reads, and what is decoded is what was appended.
func TestBatchesAreKafkas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(rapid.Custom(drawRecord), 1, 20).Draw(t, "records")
		codec := rapid.Int8Range(0, 4).Draw(t, "codec")
		at := rapid.Int64Range(0, 1<<40).Draw(t, "at")
		stored := batchOfRecords(records, codec, at)
		var theirs kmsg.RecordBatch
		if err := theirs.ReadFrom(stored); err != nil {
			t.Fatal(err)
		}
		if theirs.CRC != int32(crc32.Checksum(stored[attributesAt:], castagnoli)) || theirs.NumRecords != int32(len(records)) ||
			theirs.ProducerID != 7 || theirs.ProducerEpoch != 3 || theirs.FirstOffset != at || theirs.LastOffsetDelta != int32(len(records)-1) {
			t.Fatalf("%+v", theirs)
		}
		if int8(theirs.Attributes&attributeCodec) != codec {
			t.Fatalf("the codec is %d, want %d", theirs.Attributes&attributeCodec, codec)
		}
		plain, err := kgo.DefaultDecompressor().Decompress(theirs.Records, kgo.CompressionCodecType(codec))
		if err != nil {
			t.Fatal(err)
		}
		sameAsTheirs(t, plain, records, theirs.FirstTimestamp)
		tail := rapid.IntRange(0, len(stored)-1).Draw(t, "tail") // a part of another batch, as a broker adds it
		from := at + rapid.Int64Range(0, int64(len(records)-1)).Draw(t, "from")
		b, err := decodeBatches(record.TopicPartition{Topic: "t"}, from, &fetched{records: append(stored, stored[:tail]...)}, true)
		if err != nil || b.Next != at+int64(len(records)) {
			t.Fatal(b.Next, err)
		}
		for i := range records {
			records[i].Offset = at + int64(i)
		}
		if d := cmp.Diff(records[from-at:], b.Records); d != "" {
			t.Fatal(d)
		}
	})
}

// A batch that claims to come to more than the limit is refused, whatever its codec, before there is memory for it.
func TestBatchesThatClaimTooMuchAreRefused(t *testing.T) {
	block := binary.AppendUvarint(nil, inflatedLimit+1)
	half := binary.AppendUvarint(nil, inflatedLimit/2+1)
	framed := xerial.Encode(nil, nil)
	for range 2 {
		framed = append(appendInt32(framed, int32(len(half))), half...)
	}
	for name, b := range map[string][]byte{"a block": block, "frames": framed} {
		if _, err := decompress(codecSnappy, b); err == nil || !strings.Contains(err.Error(), "comes to more than") {
			t.Errorf("%s of snappy: %v", name, err)
		}
	}
	for _, b := range [][]byte{{}, framed[:18], framed[:21], {0xff}} {
		if _, err := decompress(codecSnappy, b); err == nil {
			t.Errorf("%x was taken for snappy", b)
		}
	}
}

func sameAsTheirs(t *rapid.T, encoded []byte, records []record.Raw, first int64) {
	for i, r := range records {
		var theirs kmsg.Record
		size, n := binary.Varint(encoded)
		if err := theirs.ReadFrom(encoded[:n+int(size)]); err != nil {
			t.Fatal(err)
		}
		encoded = encoded[n+int(size):]
		got := record.Raw{Key: theirs.Key, Value: theirs.Value, Timestamp: first + theirs.TimestampDelta64}
		for _, h := range theirs.Headers {
			got.Headers = append(got.Headers, record.Header{Key: h.Key, Value: h.Value})
		}
		if d := cmp.Diff(r, got); d != "" || theirs.OffsetDelta != int32(i) {
			t.Fatal(theirs.OffsetDelta, d)
		}
	}
}

// Damage is found: a batch whose bytes were changed is never read as another one.
func TestDamagedBatchesAreRefused(t *testing.T) {
	stored := batchOfRecords([]record.Raw{{Key: []byte("k"), Value: []byte("value"), Timestamp: 5}, {Value: []byte("w"), Timestamp: 6}}, codecNone, 10)
	whole, err := decodeBatches(record.TopicPartition{}, 10, &fetched{records: stored}, false)
	if err != nil || len(whole.Records) != 2 {
		t.Fatal(whole, err)
	}
	for at := magicAt; at < len(stored); at++ {
		damaged := bytes.Clone(stored)
		damaged[at] ^= 0x41
		_, err := decodeBatches(record.TopicPartition{}, 10, &fetched{records: damaged}, false)
		var malformed sarama.PacketDecodingError
		if !errors.As(err, &malformed) {
			t.Errorf("byte %d was changed: %v", at, err)
		}
	}
	for n := range len(stored) {
		b, err := decodeBatches(record.TopicPartition{}, 10, &fetched{records: stored[:n]}, false)
		if err != nil || len(b.Records) != 0 || b.Next != 10 {
			t.Fatalf("%d bytes of a batch: %+v, %v", n, b, err)
		}
	}
}

// Whatever a record's bytes are, they are read or refused, within their bounds.
func FuzzTakeRecord(f *testing.F) {
	f.Add(appendRecord(nil, &record.Raw{Key: []byte("k"), Value: []byte("v"), Headers: record.Headers{{Key: "h"}}}, 3, 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r record.Raw
		rest, ok := takeRecord(b, &r)
		if ok && len(rest) >= len(b) {
			t.Fatal("nothing was taken")
		}
	})
}

// An answer that is cut off anywhere is refused, and costs no more memory than it has bytes.
func TestCutAnswersAreRefused(t *testing.T) {
	fetch := kmsg.NewPtrFetchResponse()
	fetch.Version = fetchVersion
	produce := kmsg.NewPtrProduceResponse()
	produce.Version = produceVersion
	for _, topic := range []string{"a", "b"} {
		ft, pt := kmsg.NewFetchResponseTopic(), kmsg.NewProduceResponseTopic()
		ft.Topic, pt.Topic = topic, topic
		for i := range int32(2) {
			fp, pp := kmsg.NewFetchResponseTopicPartition(), kmsg.NewProduceResponseTopicPartition()
			fp.Partition, fp.HighWatermark, fp.RecordBatches, fp.ErrorCode = i, 9, []byte("records"), 3
			fp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 4, FirstOffset: 5}}
			message := "why"
			pp.Partition, pp.BaseOffset, pp.ErrorCode, pp.ErrorMessage = i, 8, 87, &message
			pp.ErrorRecords = []kmsg.ProduceResponseTopicPartitionErrorRecord{{RelativeOffset: 6, ErrorMessage: &message}}
			ft.Partitions, pt.Partitions = append(ft.Partitions, fp), append(pt.Partitions, pp)
		}
		fetch.Topics, produce.Topics = append(fetch.Topics, ft), append(produce.Topics, pt)
	}
	raw := fetch.AppendTo(nil)
	all, err := decodeFetch(raw)
	want := &fetched{code: 3, highWatermark: 9, lastStable: -1, logStart: -1, aborted: []abortedTransaction{{4, 5}}, records: []byte("records")}
	if d := cmp.Diff(want, all[record.TopicPartition{Topic: "b", Partition: 1}], cmp.AllowUnexported(fetched{}, abortedTransaction{})); err != nil || d != "" || len(all) != 4 {
		t.Fatal(err, len(all), d)
	}
	for n := range len(raw) {
		if _, err := decodeFetch(raw[:n]); err == nil {
			t.Fatalf("%d of %d bytes were enough", n, len(raw))
		}
	}
	raw = produce.AppendTo(nil)
	parts, err := decodeProduce(raw)
	if got := fmt.Sprint(parts[record.TopicPartition{Topic: "a"}], err, len(parts)); got != "{87 8 [6] why} <nil> 4" {
		t.Fatal(got)
	}
	for n := range len(raw) - 4 { // its last field, the time of a throttle, is not read
		if _, err := decodeProduce(raw[:n]); err == nil {
			t.Fatalf("%d of %d bytes were enough", n, len(raw))
		}
	}
}

// benchRecords are the bench's keyed records: values of a hundred bytes.
func benchRecords(n int) []record.Raw {
	now := time.Now().UnixMilli()
	records := make([]record.Raw, n)
	for i := range records {
		records[i] = record.Raw{Key: fmt.Appendf(nil, "user-%06d", i*7919%100_000), Value: bytes.Repeat([]byte("x"), 100), Timestamp: now}
	}
	return records
}

// A fetched partition of 8 batches of 1,000 records; ns/record is the cost of one.
func BenchmarkFetchDecode(b *testing.B) {
	for name, codec := range codecs {
		if name == "" || name == "gzip" || name == "snappy" {
			continue
		}
		b.Run(name, func(b *testing.B) {
			var stored []byte
			for i := range 8 {
				stored = append(stored, batchOfRecords(benchRecords(1000), codec, int64(1000*i))...)
			}
			b.ReportAllocs()
			var got broker.Batch
			for b.Loop() {
				got, _ = decodeBatches(record.TopicPartition{Topic: "t"}, 0, &fetched{records: stored}, true)
			}
			if len(got.Records) != 8000 {
				b.Fatal(len(got.Records))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(8000*b.N), "ns/record")
		})
	}
}

// A batch of 1,000 records from the first Append to the frame that is sent.
func BenchmarkProduceEncode(b *testing.B) {
	for name, codec := range codecs {
		if name == "" || name == "gzip" || name == "snappy" {
			continue
		}
		b.Run(name, func(b *testing.B) {
			records := benchRecords(1000)
			p := &Producer{}
			b.ReportAllocs()
			for b.Loop() {
				n := p.newBatch(record.TopicPartition{Topic: "t"}, 0)
				for i := range records {
					n.add(&records[i], recordSize(&records[i]))
				}
				r := produce{clientID: "c", codec: codec}
				r.encode([]numbered{{n, 1, 1}})
				p.release(n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(1000*b.N), "ns/record")
		})
	}
}
