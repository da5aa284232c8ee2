package codec

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/record"
)

// TimeWindowed writes the keys of windows of one size as Kafka Streams' time-windowed serde does: the key, and the start
// in 8 bytes. The end is not written: it is start + size on the way back, and Encode refuses a window of another size.
// For sliding windows size is the time difference. The text form is key@start, in milliseconds.
//
// It is not ordered: keys of two lengths interleave.
func TimeWindowed[K any](keys Codec[K], size time.Duration) Codec[record.Windowed[K]] {
	return timeWindowed[K]{keys, size.Milliseconds()}
}

// SessionWindowed writes the keys of sessions as Kafka Streams' session-windowed serde does: the key, the end, and the
// start, 8 bytes each. The text form is key@start..end, in milliseconds. It is not ordered.
func SessionWindowed[K any](keys Codec[K]) Codec[record.Windowed[K]] { return sessionWindowed[K]{keys} }

type timeWindowed[K any] struct {
	keys Codec[K]
	size int64
}

func (c timeWindowed[K]) Name() string {
	return fmt.Sprintf("time-windowed(%s,%d)", c.keys.Name(), c.size)
}
func (timeWindowed[K]) Ordered() bool  { return false }
func (c timeWindowed[K]) Copies() bool { return Copies(c.keys) }

func (c timeWindowed[K]) Encode(dst []byte, v record.Windowed[K]) ([]byte, error) {
	if v.Start < 0 || v.End != v.Start+c.size {
		return dst, &Error{Codec: c.Name(), Reason: fmt.Sprintf("the window from %d to %d is not one of %d ms from 0 on", v.Start, v.End, c.size)}
	}
	out, err := c.keys.Encode(dst, v.Key)
	if err != nil {
		return dst, err
	}
	return binary.BigEndian.AppendUint64(out, uint64(v.Start)), nil
}

func (c timeWindowed[K]) Decode(b []byte) (v record.Windowed[K], err error) {
	n := len(b) - 8
	if n < 0 {
		return v, &Error{Codec: c.Name(), Reason: fmt.Sprintf("want at least 8 bytes, got %d", len(b))}
	}
	start := int64(binary.BigEndian.Uint64(b[n:]))
	if start < 0 || start+c.size < start {
		return v, &Error{Codec: c.Name(), Reason: "the start of the window is out of range"}
	}
	v.Key, err = c.keys.Decode(b[:n:n])
	v.Start, v.End = start, start+c.size
	return v, err
}

func (c timeWindowed[K]) FormatText(v record.Windowed[K]) string {
	return c.keys.FormatText(v.Key) + "@" + strconv.FormatInt(v.Start, 10)
}

func (c timeWindowed[K]) ParseText(s string) (v record.Windowed[K], err error) {
	key, at, ok := cutLast(s)
	start, failed := strconv.ParseInt(at, 10, 64)
	if !ok || failed != nil || start < 0 || start+c.size < start {
		return v, notWindow(c.Name(), s, "key@start", failed)
	}
	v.Key, err = c.keys.ParseText(key)
	v.Start, v.End = start, start+c.size
	return v, err
}

// notWindow says how a window is written.
func notWindow(codec, s, form string, cause error) error {
	return &Error{Codec: codec, Reason: fmt.Sprintf("cannot read %q; write %s, with times in milliseconds", s, form), Cause: cause}
}

// cutLast cuts at the last @: a key may hold others.
func cutLast(s string) (key, times string, ok bool) {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+1:], true
}

type sessionWindowed[K any] struct{ keys Codec[K] }

func (c sessionWindowed[K]) Name() string { return "session-windowed(" + c.keys.Name() + ")" }
func (sessionWindowed[K]) Ordered() bool  { return false }
func (c sessionWindowed[K]) Copies() bool { return Copies(c.keys) }

func (c sessionWindowed[K]) Encode(dst []byte, v record.Windowed[K]) ([]byte, error) {
	if v.Start < 0 || v.End < v.Start {
		return dst, &Error{Codec: c.Name(), Reason: fmt.Sprintf("there is no session from %d to %d", v.Start, v.End)}
	}
	out, err := c.keys.Encode(dst, v.Key)
	if err != nil {
		return dst, err
	}
	return record.AppendSessionSuffix(out, v.Start, v.End), nil
}

func (c sessionWindowed[K]) Decode(b []byte) (v record.Windowed[K], err error) {
	key, start, end, ok := record.SplitSessionKey(b)
	if !ok {
		return v, &Error{Codec: c.Name(), Reason: fmt.Sprintf("%d bytes are no key with an end and a start", len(b))}
	}
	v.Key, err = c.keys.Decode(key)
	v.Start, v.End = start, end
	return v, err
}

func (c sessionWindowed[K]) FormatText(v record.Windowed[K]) string {
	return c.keys.FormatText(v.Key) + "@" + strconv.FormatInt(v.Start, 10) + ".." + strconv.FormatInt(v.End, 10)
}

func (c sessionWindowed[K]) ParseText(s string) (v record.Windowed[K], err error) {
	key, times, ok := cutLast(s)
	from, to, both := strings.Cut(times, "..")
	start, err1 := strconv.ParseInt(from, 10, 64)
	end, err2 := strconv.ParseInt(to, 10, 64)
	if !ok || !both || err1 != nil || err2 != nil || start < 0 || end < start {
		return v, notWindow(c.Name(), s, "key@start..end", err1)
	}
	v.Key, err = c.keys.ParseText(key)
	v.Start, v.End = start, end
	return v, err
}
