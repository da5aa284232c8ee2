package kafka

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Kafka's numbers for codecs, as they are in a batch's attributes.
const (
	codecNone int8 = iota
	codecGZIP
	codecSnappy
	codecLZ4
	codecZSTD
)

var codecs = map[string]int8{"": codecNone, "none": codecNone, "gzip": codecGZIP, "snappy": codecSnappy, "lz4": codecLZ4, "zstd": codecZSTD}

// inflatedLimit is the most that one batch may come to. A topic's max.message.bytes is a megabyte by default.
const inflatedLimit = 256 << 20

var errTooLarge = fmt.Errorf("a batch comes to more than %d bytes", inflatedLimit)

// The libraries' states are large, so they are used again; which goroutine has one next is nobody's business.
var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	lz4Writers  = sync.Pool{New: func() any {
		w := lz4.NewWriter(nil)
		_ = w.Apply(lz4.BlockSizeOption(lz4.Block64Kb)) // refuses sizes that do not exist
		return w
	}}
	// EncodeAll and DecodeAll may be called from any goroutine.
	zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithZeroFrames(true), zstd.WithEncoderConcurrency(0))
	})
	zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(inflatedLimit))
	})
)

// compress appends the compressed form of b to dst.
func compress(codec int8, dst, b []byte) ([]byte, error) {
	switch codec {
	case codecGZIP:
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		return written(w, dst, b)
	case codecLZ4:
		w := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(w)
		return written(w, dst, b)
	case codecSnappy:
		return xerial.Encode(dst, b), nil
	case codecZSTD:
		e, err := zstdEncoder()
		if err != nil {
			return nil, err
		}
		return e.EncodeAll(b, dst), nil
	}
	return nil, fmt.Errorf("there is no codec %d", codec)
}

type resettable interface {
	io.WriteCloser
	Reset(io.Writer)
}

func written(w resettable, dst, b []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	w.Reset(out)
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// decompress gives what compress was given; without a codec that is b itself.
func decompress(codec int8, b []byte) ([]byte, error) {
	switch codec {
	case codecNone:
		return b, nil
	case codecGZIP:
		r := gzipReaders.Get().(*gzip.Reader)
		defer gzipReaders.Put(r)
		if err := r.Reset(bytes.NewReader(b)); err != nil {
			return nil, err
		}
		return inflated(r, len(b))
	case codecLZ4:
		r := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(r)
		r.Reset(bytes.NewReader(b))
		return inflated(r, len(b))
	case codecSnappy:
		if n, err := snappyLen(b); err != nil || n > inflatedLimit {
			return nil, cmp.Or(err, errTooLarge)
		}
		return xerial.Decode(b)
	case codecZSTD:
		d, err := zstdDecoder()
		if err != nil {
			return nil, err
		}
		return d.DecodeAll(b, nil)
	}
	return nil, fmt.Errorf("there is no codec %d", codec)
}

// inflated reads all of r, which came of so many bytes.
func inflated(r io.Reader, from int) ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, 0, 4*from))
	n, err := out.ReadFrom(io.LimitReader(r, inflatedLimit+1))
	if err == nil && n > inflatedLimit {
		err = errTooLarge
	}
	return out.Bytes(), err
}

// snappyLen is what snappy's data claims to come to, which the library allocates: frames, as Java writes them, or one block.
func snappyLen(b []byte) (total int, err error) {
	const head = 16
	if len(b) < head || !bytes.HasPrefix(b, []byte("\x82SNAPPY\x00")) {
		return snappy.DecodedLen(b)
	}
	for b = b[head:]; len(b) >= 4; {
		size := binary.BigEndian.Uint32(b)
		if b = b[4:]; int64(size) > int64(len(b)) {
			return 0, xerial.ErrMalformed
		}
		n, err := snappy.DecodedLen(b[:size])
		if err != nil {
			return 0, err
		}
		total, b = total+n, b[size:]
	}
	return total, nil
}
