package store

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
)

// ChangelogReader reads changelog partitions.
type ChangelogReader interface {
	// Read calls fn with the batches of tp from offset from on, in order, each as soon as it is there, until a batch's Next
	// has reached to. With committed it leaves out records of aborted transactions and waits for open ones. It returns nil
	// then, fn's error if it gives one, ctx's, or a *broker.Error; with broker.CodeOffsetOutOfRange the log no longer
	// holds the position.
	Read(ctx context.Context, tp record.TopicPartition, from, to int64, committed bool, fn func(broker.Batch) error) error
	// Ends gives the range of each partition. The high watermark is the target of a restore: a transaction may be committed
	// while its marker is not in the partition yet, so the last stable offset may be too early.
	Ends(ctx context.Context, tps []record.TopicPartition) (map[record.TopicPartition]LogRange, error)
}

// RestoreResult is what a restore has done.
type RestoreResult struct {
	// From is where reading began, Next the store's offset after it.
	From, Next int64
	// Records were read, superseded ones included; markers and gaps are not records.
	Records int64
	// Discarded says why the local copy was thrown away, if it was.
	Discarded Discard
	// Bulk says that tables were built and ingested.
	Bulk bool
	// UnreadablePositions counts position headers that are not known here. They are left out.
	UnreadablePositions int64
}

// Restore brings one store to the high watermark that its changelog has at the beginning. It may be called again and again: with
// nothing to do it reads nothing. Data and offset are written together, so a restore that was cut off goes on from what it
// has written. progress, if not nil, is called at the beginning, after each step and at the end, on the caller's goroutine.
//
// A local copy that the log cannot complete is discarded, once per call at most, offset and position first.
//
// Errors: *SpecError, *ChangelogError, ErrLeaseRevoked (a later incarnation took the lease meanwhile),
// ErrStateStoreClosed, *EngineError, ctx's.
func Restore(ctx context.Context, t *TaskState, store int, reader ChangelogReader, progress func(lifecycle.Progress)) (RestoreResult, error) {
	return t.restore(ctx, t.currentEpoch(), store, reader, progress)
}

// Restore is the function Restore under the lease.
func (l *WriteLease) Restore(ctx context.Context, store int, reader ChangelogReader, progress func(lifecycle.Progress)) (RestoreResult, error) {
	return l.state.restore(ctx, l.epoch, store, reader, progress)
}

func (t *TaskState) restore(ctx context.Context, epoch uint64, store int, reader ChangelogReader, progress func(lifecycle.Progress)) (RestoreResult, error) {
	if err := t.enter(store); err != nil {
		return RestoreResult{}, err
	}
	t.engine.lease.release()
	tp, ok := t.Changelog(store)
	if !ok {
		return RestoreResult{}, nil
	}
	if progress == nil {
		progress = func(lifecycle.Progress) {}
	}
	r := &restore{t: t, store: store, tp: tp, reader: reader, progress: progress, epoch: epoch}
	r.status.Started = t.dir.opts.Now()
	err := r.run(ctx)
	if outOfRange(err) {
		// The log's start overtook the reader. The range is taken once more; who is overtaken twice cannot win.
		if err = r.run(ctx); outOfRange(err) {
			err = r.failed(ErrChangelogOutrun)
		}
	}
	return r.result, err
}

func outOfRange(err error) bool {
	var b *broker.Error
	return errors.As(err, &b) && b.Code == broker.CodeOffsetOutOfRange
}

func (t *TaskState) currentEpoch() uint64 {
	t.writing.Lock()
	defer t.writing.Unlock()
	return t.epoch
}

// restore is one call of Restore.
type restore struct {
	t        *TaskState
	store    int
	tp       record.TopicPartition
	reader   ChangelogReader
	progress func(lifecycle.Progress)
	epoch    uint64
	// began is when the range of the log was taken, in milliseconds: what is restored is not older.
	began    int64
	from, to int64
	chunk    chunk
	status   lifecycle.Progress
	result   RestoreResult
}

func (r *restore) failed(err error) error {
	next, _ := r.t.Offset(r.store)
	return &ChangelogError{Store: r.t.spec.Stores[r.store].Name, Changelog: r.tp, Offset: next, Cause: err}
}

func (r *restore) run(ctx context.Context) error {
	r.began = r.t.dir.opts.Now().UnixMilli()
	ends, err := r.reader.Ends(ctx, []record.TopicPartition{r.tp})
	if err != nil {
		return r.failed(err)
	}
	log, ok := ends[r.tp]
	if !ok {
		return r.failed(ErrChangelogRange)
	}
	if err := r.begin(log); err != nil {
		return err
	}
	r.report()
	// Whether there is anything to wait for is asked before waiting: a copy that is at the end sees no record ever.
	for next := r.from; next < r.to; {
		if err := r.read(ctx, next); err != nil {
			return err
		}
		reached, _ := r.t.Offset(r.store)
		if reached == next {
			return r.failed(ErrChangelogEnded)
		}
		next = reached
	}
	return nil
}

// begin decides about the local copy and makes the store's offset say where reading begins.
func (r *restore) begin(log LogRange) error {
	l, err := r.local()
	if err != nil {
		return err
	}
	d := decide(l, log, r.t.dir.opts.DeleteRetention-retentionMargin)
	r.from, r.to = d.from, log.HighWatermark
	r.chunk = chunk{spec: &r.t.spec.Stores[r.store], number: r.t.numbers[r.store], bulk: r.to-r.from >= bulkOffsetsMin, next: r.from, time: r.t.Time(r.store)}
	if d.discard != DiscardNone {
		if r.result.Discarded != DiscardNone {
			return r.failed(ErrChangelogOutrun)
		}
		r.result.Discarded = d.discard
		r.t.dir.opts.Logger.Warn("the local copy of a store is discarded and restored from its changelog",
			"store", r.t.spec.Stores[r.store].Name, "changelog", r.tp, "why", d.discard, "offset", l.next, "start", log.Start, "end", log.HighWatermark)
		if err := r.discard(); err != nil {
			return err
		}
		r.chunk.time = -1
	}
	r.result.From, r.result.Next = r.from, r.from
	r.status.Remaining = r.to - r.from
	if l.stored && l.next == r.from && d.discard == DiscardNone {
		return nil
	}
	return r.t.write(r.epoch, func(v *view, _ *pebble.Batch) error {
		v.marks[r.store] = mark{r.from, r.began}
		return nil
	})
}

func (r *restore) local() (l local, err error) {
	v := r.t.view.Load()
	m, ok := v.marks[r.store]
	l = local{stored: ok, next: m.next, age: time.Duration(r.began-max(m.clock, v.clock)) * time.Millisecond}
	if !ok {
		l.empty, err = r.t.empty(r.store)
	}
	return l, err
}

// discard deletes the store's offset, entries and the task's position in one batch. The other stores keep theirs; the
// position comes back with the headers of the changelog.
func (r *restore) discard() error {
	return r.t.write(r.epoch, func(v *view, b *pebble.Batch) error {
		delete(v.marks, r.store)
		delete(v.times, r.store)
		clear(v.position)
		if r.chunk.spec.InMemory {
			v.memories[r.store] = &memory{}
		}
		return wipe(b, r.t.numbers[r.store])
	})
}

// read takes up the log from next on, as far as the reader goes.
func (r *restore) read(ctx context.Context, next int64) error {
	err := r.reader.Read(ctx, r.tp, next, r.to, true, func(b broker.Batch) error {
		if err := r.add(b); err != nil {
			return err
		}
		if r.chunk.full() {
			return r.write(ctx)
		}
		return nil
	})
	// What was read before a failure is whole and need not be read again.
	if writeErr := r.write(ctx); writeErr != nil && err == nil {
		return writeErr
	}
	var own *ChangelogError
	if err == nil || errors.As(err, &own) || ctx.Err() != nil || isOurs(err) {
		return err
	}
	return r.failed(err)
}

// isOurs reports whether an error came from this room and passed through the reader.
func isOurs(err error) bool {
	var e *EngineError
	return errors.As(err, &e) || errors.Is(err, ErrStateStoreClosed) || errors.Is(err, ErrLeaseRevoked)
}

// add takes up one batch. A batch that ends before the position was taken up before.
func (r *restore) add(b broker.Batch) error {
	if b.Next <= r.chunk.next {
		return nil
	}
	for i := range b.Records {
		rec := &b.Records[i]
		if rec.Offset < r.chunk.next {
			continue
		}
		if rec.Key == nil {
			return &ChangelogError{Store: r.t.spec.Stores[r.store].Name, Changelog: r.tp, Offset: rec.Offset, Cause: ErrNullKey}
		}
		r.chunk.add(rec)
		r.result.Records++
		if h, ok := rec.Headers.Last(record.PositionHeader); ok {
			r.position(h)
		}
	}
	r.chunk.next = b.Next
	return nil
}

func (r *restore) position(header []byte) {
	p, err := record.DecodePosition(header)
	if err != nil {
		r.result.UnreadablePositions++
		return
	}
	if r.chunk.position == nil {
		r.chunk.position = record.Position{}
	}
	record.MergePosition(r.chunk.position, p)
}

// write makes the chunk durable together with the offset after it.
func (r *restore) write(ctx context.Context) error {
	next, ok := r.t.Offset(r.store)
	if ok && next == r.chunk.next {
		return nil
	}
	if err := r.t.breakable(fault.RestoreBatch, r.store); err != nil {
		return r.failed(err)
	}
	began := time.Now()
	var err error
	if r.chunk.worthTables() && !r.chunk.spec.InMemory {
		r.result.Bulk = true
		err = r.ingest(ctx)
	} else {
		err = r.batch()
	}
	if err != nil {
		return err
	}
	r.chunk.spec.Counts.restored(began)
	r.chunk.reset()
	r.result.Next = r.chunk.next
	r.report()
	return nil
}

func (r *restore) batch() error {
	return r.t.write(r.epoch, func(v *view, b *pebble.Batch) error {
		r.advance(v)
		if r.chunk.spec.InMemory {
			v.memories[r.store] = v.memories[r.store].merge(r.chunk.sorted())
			return nil
		}
		for _, e := range r.chunk.sorted() {
			if err := put(b, r.chunk.number, e.key, e.value, e.timestamp); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *restore) advance(v *view) {
	v.marks[r.store] = mark{r.chunk.next, r.began}
	v.seen(r.store, r.chunk.time)
	record.MergePosition(v.position, r.chunk.position)
}

func (r *restore) report() {
	next := r.result.Next
	r.status.Restored, r.status.Remaining = next-r.from, max(r.to-next, 0)
	r.progress(r.status)
}
