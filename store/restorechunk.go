package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/record"
)

const (
	// bulkOffsetsMin is from which distance on a restore builds tables. Below it, one batch after the other is as good.
	bulkOffsetsMin = 50_000
	// A bulk chunk is limited by what it takes of a process of 250 MiB, a small one by the memtable.
	bulkBytesMax     = 24 << 20
	bulkRecordsMax   = 300_000
	batchBytesMax    = 1 << 20
	batchRecordsMax  = 5_000
	tablesRecordsMin = 10_000
	ingestPrefix     = "ingest-"
)

// chunk is a part of the changelog on its way into the engine. It copies what it takes, because the batches' memory is
// the reader's.
type chunk struct {
	spec     *StoreSpec
	number   uint16
	bulk     bool
	arena    [][]byte
	bytes    int
	changes  []change
	position record.Position
	// next is the offset after it.
	next int64
	// time is the store's once it is written: windows that have expired by then are left out.
	time int64
}

type change struct {
	key, value []byte
	timestamp  int64
	// at is its place in the chunk: a sort that need not be stable is three times as fast.
	at int
}

const arenaBytes = 256 << 10

func (c *chunk) copy(b []byte) []byte {
	last := len(c.arena) - 1
	if last < 0 || len(b) > cap(c.arena[last])-len(c.arena[last]) {
		c.arena = append(c.arena, make([]byte, 0, max(len(b), arenaBytes)))
		last++
	}
	at := len(c.arena[last])
	c.arena[last] = append(c.arena[last], b...)
	return slices.Clip(c.arena[last][at:])
}

func (c *chunk) add(r *record.Raw) {
	ch := change{key: c.copy(r.Key), timestamp: r.Timestamp, at: len(c.changes)}
	if r.Value != nil {
		ch.value = c.copy(r.Value)
	}
	c.changes = append(c.changes, ch)
	c.time = max(c.time, r.Timestamp)
	c.bytes += len(r.Key) + len(r.Value)
}

func (c *chunk) full() bool {
	if c.bulk {
		return c.bytes >= bulkBytesMax || len(c.changes) >= bulkRecordsMax
	}
	return c.bytes >= batchBytesMax || len(c.changes) >= batchRecordsMax
}

func (c *chunk) worthTables() bool { return c.bulk && len(c.changes) >= tablesRecordsMin }

// sorted gives the last change of each key, in key order, without windows that have expired.
func (c *chunk) sorted() []change {
	live := c.spec.liveFrom(c.time)
	c.changes = slices.DeleteFunc(lastOfEach(c.changes), func(ch change) bool {
		return ch.value != nil && c.spec.expired(ch.key, live)
	})
	return c.changes
}

// lastOfEach sorts changes, in place, and keeps the last one of each key.
func lastOfEach(changes []change) []change {
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(bytes.Compare(a.key, b.key), a.at-b.at)
	})
	out := changes[:0]
	for i, ch := range changes {
		if i+1 == len(changes) || !bytes.Equal(ch.key, changes[i+1].key) {
			out = append(out, ch)
		}
	}
	return out
}

func (c *chunk) reset() {
	clear(c.changes)
	c.changes, c.bytes, c.position = c.changes[:0], 0, nil
	if len(c.arena) > 0 {
		clear(c.arena[1:])
		c.arena = c.arena[:1]
		c.arena[0] = c.arena[0][:0]
	}
}

// ingest builds two tables, one of the chunk and one of the offset and position after it, and hands both to the engine
// in one step, which is atomic like a batch. Two, because one table over both would reach across all other stores.
func (r *restore) ingest(ctx context.Context) error {
	t := r.t
	t.writing.Lock()
	defer t.writing.Unlock()
	if r.epoch != t.epoch {
		return fmt.Errorf("%w (epoch %d, restored with %d)", ErrLeaseRevoked, t.epoch, r.epoch)
	}
	v := t.newView()
	r.advance(v)
	err := t.engine.run("ingest", func() error { return r.ingestTables(ctx, v) })
	return t.publish(v, err)
}

func (r *restore) ingestTables(ctx context.Context, v *view) (err error) {
	fs := r.t.dir.opts.FS
	dir := fs.PathJoin(fs.PathDir(r.t.engine.dir), ingestPrefix+uuid.NewString())
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fs.RemoveAll(dir)) }()
	data, own := fs.PathJoin(dir, "data.sst"), fs.PathJoin(dir, "own.sst")
	tables := []string{own}
	if len(r.chunk.sorted()) > 0 {
		tables = append(tables, data)
		if err := r.t.table(data, r.chunk.writeTo); err != nil {
			return err
		}
	}
	err = r.t.table(own, func(w *sstable.Writer) error {
		for _, kv := range r.t.metaWrites(v) {
			if err := w.Set(kv[0], kv[1]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.t.begin(v)
	return r.t.engine.db.Ingest(ctx, tables)
}

func (c *chunk) writeTo(w *sstable.Writer) error {
	var key, value []byte
	for _, ch := range c.sorted() {
		key = appendKey(key[:0], c.number, ch.key)
		if ch.value == nil {
			if err := w.Delete(key); err != nil {
				return err
			}
			continue
		}
		value = slices.Grow(value[:0], valueOverhead+len(ch.value))[:valueOverhead+len(ch.value)]
		putValue(value, ch.timestamp, ch.value)
		if err := w.Set(key, value); err != nil {
			return err
		}
	}
	return nil
}

// table writes one table file.
func (t *TaskState) table(name string, fill func(*sstable.Writer) error) error {
	f, err := t.dir.opts.FS.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	o := t.engine.options(t.dir, t.memTableBytes)
	format := t.engine.db.FormatMajorVersion().MaxTableFormat()
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), o.MakeWriterOptions(0, format))
	if err := fill(w); err != nil {
		return errors.Join(err, w.Close())
	}
	return w.Close()
}
