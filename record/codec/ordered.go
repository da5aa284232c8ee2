package codec

import (
	"encoding/binary"
	"math"
	"time"
)

// Codecs whose bytes sort as their values do, so that a range over a store means what it says. Java's number serdes do
// not: a negative number begins with a set bit and sorts behind every positive one (KAFKA-8159). These flip the sign bit.
var (
	// OrderedInt32 is Int32 with the sign bit flipped. Java clients cannot read it.
	OrderedInt32 Codec[int32] = int32Codec{name: "ordered-int32", flip: 1 << 31}
	// OrderedFloat64 sorts as numbers, -0 before 0: a negative number has all bits flipped, another one its sign bit. A
	// NaN sorts at one of the ends. Java clients cannot read it.
	OrderedFloat64 Codec[float64] = orderedFloat64{}
	// Time is a time.Time in nanoseconds since the Unix epoch as OrderedInt64 writes them: the years 1678 to 2262, in UTC.
	// The text form is RFC 3339.
	Time Codec[time.Time] = timeCodec{}
)

type orderedFloat64 struct{ float64Codec }

func (orderedFloat64) Name() string  { return "ordered-float64" }
func (orderedFloat64) Ordered() bool { return true }

func (orderedFloat64) Encode(dst []byte, v float64) ([]byte, error) {
	b := math.Float64bits(v)
	if b&(1<<63) != 0 {
		return binary.BigEndian.AppendUint64(dst, ^b), nil
	}
	return binary.BigEndian.AppendUint64(dst, b|1<<63), nil
}

func (orderedFloat64) Decode(b []byte) (float64, error) {
	if len(b) != 8 {
		return 0, wrongLength("ordered-float64", 8, len(b))
	}
	u := binary.BigEndian.Uint64(b)
	if u&(1<<63) != 0 {
		return math.Float64frombits(u &^ (1 << 63)), nil
	}
	return math.Float64frombits(^u), nil
}

type timeCodec struct{}

func (timeCodec) Name() string                  { return "time" }
func (timeCodec) Ordered() bool                 { return true }
func (timeCodec) Copies() bool                  { return true }
func (timeCodec) FormatText(v time.Time) string { return v.UTC().Format(time.RFC3339Nano) }

func (timeCodec) Encode(dst []byte, v time.Time) ([]byte, error) {
	n := v.UnixNano()
	if !time.Unix(0, n).Equal(v) {
		return dst, &Error{Codec: "time", Reason: v.String() + " is not between the years 1678 and 2262"}
	}
	return OrderedInt64.Encode(dst, n)
}

func (timeCodec) Decode(b []byte) (time.Time, error) {
	if len(b) != 8 {
		return time.Time{}, wrongLength("time", 8, len(b))
	}
	n, err := OrderedInt64.Decode(b)
	return time.Unix(0, n).UTC(), err
}

func (timeCodec) ParseText(s string) (time.Time, error) {
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, notText("time", s, err)
	}
	return v.UTC(), nil
}
