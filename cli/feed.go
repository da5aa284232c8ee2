package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/cli/text"
	"github.com/millrace-io/millrace/record"
)

const (
	// recordLimit is how much of a line goes into one record, in bytes. Brokers refuse batches of more than 1 MiB + 12
	// bytes unless configured otherwise, so headers and the batch's own bytes need room.
	recordLimit = 1<<20 - 8<<10
	// chunkLines is how many lines in a row go to the same partition, so that batches fill.
	chunkLines = 512
)

// feed writes sources into the topic that is counted: one record for each line.
//
// The partition of a line follows from its file's path and its number alone. So a later run with the same inputs comes by
// the lines of each partition in the same order, and can skip exactly those that are in the log: up to the partition's
// last record. One position for the whole topic would not do: batches of several partitions are under way at a time, and
// when a process is killed, any of them may be missing.
type feed struct {
	appID string
	sink  sink
	// last has the last record fed earlier into each partition, nil if there is none (or once it was come by).
	last   []*position
	now    func() time.Time
	tell   func(lines, bytes int64)
	warn   func(format string, args ...any)
	lines  *text.Lines
	fed    int64
	bytes  int64
	line   []byte
	part   []byte
	order  [4]byte
	stored [4]record.Header
	raw    record.Raw
}

// run feeds what is not in the log yet and waits until all of it is there.
func (f *feed) run(ctx context.Context, inputs []input) error {
	if err := checkResume(f.appID, inputs, f.last); err != nil {
		return err
	}
	f.lines = text.NewLines(nil, recordLimit)
	for i, order := range orders(inputs) {
		binary.BigEndian.PutUint32(f.order[:], order)
		if err := f.source(ctx, inputs[i]); err != nil {
			return err
		}
	}
	if err := f.sink.Flush(ctx); err != nil {
		return feedError(ctx, err)
	}
	for _, p := range f.last {
		if p != nil {
			return failf(nil, "application %s was fed line %d of %s, which the file no longer has; leave out --app for a fresh count", f.appID, p.line, p.file)
		}
	}
	return nil
}

func (f *feed) source(ctx context.Context, in input) (err error) {
	r, isText, err := in.read()
	if err != nil {
		return failf(err, "%s cannot be read; make it readable or leave it out", in.path)
	}
	if !isText {
		f.warn("%s is skipped: it has a NUL among its first %d bytes, so it is no text", in.path, nulSniff)
		f.moved(max(in.size, 0))
		return nil
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f.lines.Reset(r)
	return f.pieces(ctx, in.path)
}

func (f *feed) pieces(ctx context.Context, path string) error {
	file, base := []byte(path), int(record.Murmur2([]byte(path))&0x7fffffff)
	timestamp := f.now().UnixMilli()
	for {
		p, err := f.lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return failf(err, "%s cannot be fed", path)
		}
		if p.Line%chunkLines == 0 {
			timestamp = f.now().UnixMilli()
		}
		partition := int32((base + (p.Line-1)/chunkLines) % len(f.last))
		if !f.skip(partition, path, p) {
			if err := f.sink.Append(ctx, partition, f.record(file, p, timestamp)); err != nil {
				return feedError(ctx, err)
			}
		}
		f.fed++
		f.moved(int64(len(p.Text)) + 1)
	}
}

// skip says whether the piece is in the log already.
func (f *feed) skip(partition int32, path string, p text.Piece) bool {
	last := f.last[partition]
	if last == nil {
		return false
	}
	if last.line == p.Line && last.part == p.Part && last.file == path {
		f.last[partition] = nil
	}
	return true
}

// record is the piece as a record; it is valid until the next call, which is enough for a sink, for it copies.
func (f *feed) record(file []byte, p text.Piece, timestamp int64) *record.Raw {
	f.line = strconv.AppendInt(f.line[:0], int64(p.Line), 10)
	headers := append(f.stored[:0], record.Header{Key: headerFile, Value: file},
		record.Header{Key: headerLine, Value: f.line}, record.Header{Key: headerOrder, Value: f.order[:]})
	if p.Part > 1 {
		f.part = strconv.AppendInt(f.part[:0], int64(p.Part), 10)
		headers = append(headers, record.Header{Key: headerPart, Value: f.part})
	}
	f.raw = record.Raw{Value: p.Text, Timestamp: timestamp, Headers: headers}
	return &f.raw
}

// moved reports progress now and then.
func (f *feed) moved(bytes int64) {
	const every = 256 << 10
	before := f.bytes / every
	if f.bytes += bytes; f.bytes/every != before {
		f.tell(f.fed, f.bytes)
	}
}

func feedError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if failure := (*FailureError)(nil); errors.As(err, &failure) {
		return failure
	}
	return failf(err, "the input could not be written to Kafka; run the same command with --app to go on after the last line that arrived")
}
