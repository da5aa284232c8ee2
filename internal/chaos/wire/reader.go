package wire

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/record"
)

// Transaction names a transaction as its records do. A producer that begins another one after a commit keeps its epoch,
// so this names the transactions between two re-initialisations; of those at most the last is aborted.
type Transaction struct {
	ProducerID int64
	Epoch      int16
}

// Reader reads what is committed in one partition, from its first record on. It is for its client's goroutine.
type Reader struct {
	client *Client
	tp     record.TopicPartition
	next   int64
	end    End
	// empty counts answers in a row that brought nothing although more is there.
	empty int
	// Committed counts commit markers; Aborted has each transaction of which an abort marker was found.
	Committed int
	Aborted   map[Transaction]bool
}

// NewReader looks for the partition's first record.
func (c *Client) NewReader(ctx context.Context, tp record.TopicPartition) (*Reader, error) {
	r := &Reader{client: c, tp: tp, end: End{-1, -1}, Aborted: map[Transaction]bool{}}
	return r, c.retry(ctx, "the start of "+tp.String(), func() (err error) {
		r.next, err = c.listOffset(tp, sarama.OffsetOldest, sarama.ReadCommitted)
		return err
	})
}

// AtEnd says that the last fetch has reached the end of the log, and that no transaction is open in it.
func (r *Reader) AtEnd() bool { return r.next == r.end.HighWatermark && r.next == r.end.LastStable }

// All gives each committed record from here to the end, which must be stable: nobody may write any more.
func (r *Reader) All(ctx context.Context, each func(record.Raw) error) error {
	for !r.AtEnd() {
		if ctx.Err() != nil {
			return fmt.Errorf("reading %s: %w at offset %d of %d, %d of them stable", r.tp, context.Cause(ctx), r.next, r.end.HighWatermark, r.end.LastStable)
		}
		if err := r.Poll(ctx, each); err != nil {
			return err
		}
	}
	return nil
}

// Poll fetches once and gives each committed record of the answer. It waits a quarter of a second for one.
func (r *Reader) Poll(ctx context.Context, each func(record.Raw) error) error {
	var block *sarama.FetchResponseBlock
	err := r.client.retry(ctx, "reading "+r.tp.String(), func() (err error) {
		block, err = r.fetch()
		return err
	})
	if err != nil {
		return err
	}
	r.end = End{HighWatermark: block.HighWaterMarkOffset, LastStable: block.LastStableOffset}
	before := r.next
	undone := aborted{left: slices.SortedFunc(slices.Values(block.AbortedTransactions), func(a, b *sarama.AbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	}), open: map[int64]bool{}}
	for _, set := range block.RecordsSet {
		b := set.RecordBatch
		if b == nil || b.PartialTrailingRecord || b.LastOffset() < r.next {
			continue
		}
		undone.reach(b.LastOffset())
		if err := r.take(b, &undone, each); err != nil {
			return err
		}
		r.next = b.LastOffset() + 1
	}
	r.gap(ctx, before)
	return nil
}

// emptyAnswers are enough to believe that there is nothing at an offset.
const emptyAnswers = 20

// gap steps over a batch whose records were all compacted away: the library leaves such batches out of the answer.
func (r *Reader) gap(ctx context.Context, before int64) {
	if r.next > before || r.next >= min(r.end.HighWatermark, r.end.LastStable) {
		r.empty = 0
		return
	}
	if r.empty++; r.empty >= emptyAnswers {
		r.next, r.empty = r.next+1, 0
		return
	}
	select {
	case <-time.After(firstPause):
	case <-ctx.Done():
	}
}

func (r *Reader) fetch() (*sarama.FetchResponseBlock, error) {
	l, err := r.client.leader(r.tp)
	if err != nil {
		return nil, err
	}
	request := &sarama.FetchRequest{Version: 11, MaxWaitTime: 250, MinBytes: 1, MaxBytes: 16 << 20, SessionEpoch: -1, Isolation: sarama.ReadCommitted}
	request.AddBlock(r.tp.Topic, r.tp.Partition, r.next, 4<<20, l.epoch)
	answer, err := call(r.client, l.address, func(b *sarama.Broker) (*sarama.FetchResponse, error) { return b.Fetch(request) })
	if err != nil {
		return nil, err
	}
	block := answer.GetBlock(r.tp.Topic, r.tp.Partition)
	switch {
	case block == nil:
		return nil, fmt.Errorf("the answer to a fetch lacks %s", r.tp)
	case block.Err == sarama.ErrOffsetOutOfRange:
		return nil, &Refused{fmt.Sprintf("offset %d of %s", r.next, r.tp), block.Err}
	case block.Err != sarama.ErrNoError:
		return nil, fmt.Errorf("a fetch of %s: %w", r.tp, block.Err)
	}
	return block, nil
}

func (r *Reader) take(b *sarama.RecordBatch, undone *aborted, each func(record.Raw) error) error {
	if b.Control {
		r.marker(b, undone)
		return nil
	}
	if b.IsTransactional && undone.open[b.ProducerID] {
		return nil
	}
	for _, in := range b.Records {
		offset := b.FirstOffset + in.OffsetDelta
		if offset < r.next {
			continue
		}
		out := record.Raw{Key: in.Key, Value: in.Value, Offset: offset, Timestamp: b.FirstTimestamp.Add(in.TimestampDelta).UnixMilli()}
		for _, h := range in.Headers {
			out.Headers = append(out.Headers, record.Header{Key: string(h.Key), Value: h.Value})
		}
		if err := each(out); err != nil {
			return err
		}
	}
	return nil
}

// marker takes the end of a transaction: key bytes 2 and 3 are 0 for an abort and 1 for a commit.
func (r *Reader) marker(b *sarama.RecordBatch, undone *aborted) {
	for _, m := range b.Records {
		if len(m.Key) < 4 {
			continue
		}
		if m.Key[3] == 0 {
			delete(undone.open, b.ProducerID)
			r.Aborted[Transaction{b.ProducerID, b.ProducerEpoch}] = true
		} else {
			r.Committed++
		}
	}
}

// aborted is the aborted transactions of one answer, while its batches are walked through in order.
type aborted struct {
	left []*sarama.AbortedTransaction
	// open are the producers whose records are to be passed over, up to their abort marker.
	open map[int64]bool
}

// reach opens the transactions that began at or before an offset.
func (a *aborted) reach(offset int64) {
	for len(a.left) > 0 && a.left[0].FirstOffset <= offset {
		a.open[a.left[0].ProducerID] = true
		a.left = a.left[1:]
	}
}
