package codec

import (
	"encoding/binary"
	"math"
	"strconv"
)

var (
	// Int64 is a Java Long: 8 bytes, big endian, two's complement. It is not ordered: negatives sort after positives.
	Int64 Codec[int64] = int64Codec{name: "int64"}
	// OrderedInt64 is Int64 with the sign bit flipped, so that bytes sort as numbers. Java clients cannot read it.
	OrderedInt64 Codec[int64] = int64Codec{name: "ordered-int64", flip: 1 << 63}
	// Int32 is a Java Integer: 4 bytes, big endian, two's complement; not ordered.
	Int32 Codec[int32] = int32Codec{name: "int32"}
	// Float64 is a Java Double: 8 bytes, big endian, IEEE 754; not ordered.
	Float64 Codec[float64] = float64Codec{}
	// Bool is one byte, 0 or 1, as Kafka's BooleanSerializer writes.
	Bool Codec[bool] = boolCodec{}
)

type int64Codec struct {
	name string
	flip uint64
}

func (c int64Codec) Name() string            { return c.name }
func (c int64Codec) Ordered() bool           { return c.flip != 0 }
func (int64Codec) Copies() bool              { return true }
func (int64Codec) FormatText(v int64) string { return strconv.FormatInt(v, 10) }
func (c int64Codec) Encode(dst []byte, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^c.flip), nil
}

func (c int64Codec) Decode(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, wrongLength(c.name, 8, len(b))
	}
	return int64(binary.BigEndian.Uint64(b) ^ c.flip), nil
}

func (c int64Codec) ParseText(s string) (int64, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, notText(c.name, s, err)
	}
	return v, nil
}

type int32Codec struct {
	name string
	flip uint32
}

func (c int32Codec) Name() string            { return c.name }
func (c int32Codec) Ordered() bool           { return c.flip != 0 }
func (int32Codec) Copies() bool              { return true }
func (int32Codec) FormatText(v int32) string { return strconv.FormatInt(int64(v), 10) }
func (c int32Codec) Encode(dst []byte, v int32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, uint32(v)^c.flip), nil
}

func (c int32Codec) Decode(b []byte) (int32, error) {
	if len(b) != 4 {
		return 0, wrongLength(c.name, 4, len(b))
	}
	return int32(binary.BigEndian.Uint32(b) ^ c.flip), nil
}

func (c int32Codec) ParseText(s string) (int32, error) {
	v, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, notText(c.name, s, err)
	}
	return int32(v), nil
}

type float64Codec struct{}

func (float64Codec) Name() string                { return "float64" }
func (float64Codec) Ordered() bool               { return false }
func (float64Codec) Copies() bool                { return true }
func (float64Codec) FormatText(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
func (float64Codec) Encode(dst []byte, v float64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)), nil
}

func (float64Codec) Decode(b []byte) (float64, error) {
	if len(b) != 8 {
		return 0, wrongLength("float64", 8, len(b))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
}

func (float64Codec) ParseText(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, notText("float64", s, err)
	}
	return v, nil
}

type boolCodec struct{}

func (boolCodec) Name() string             { return "bool" }
func (boolCodec) Ordered() bool            { return true }
func (boolCodec) Copies() bool             { return true }
func (boolCodec) FormatText(v bool) string { return strconv.FormatBool(v) }
func (boolCodec) Encode(dst []byte, v bool) ([]byte, error) {
	if v {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

func (boolCodec) Decode(b []byte) (bool, error) {
	if len(b) != 1 {
		return false, wrongLength("bool", 1, len(b))
	}
	if b[0] > 1 {
		return false, &Error{Codec: "bool", Reason: "the byte is neither 0 nor 1"}
	}
	return b[0] == 1, nil
}

func (boolCodec) ParseText(s string) (bool, error) {
	v, err := strconv.ParseBool(s)
	if err != nil {
		return false, notText("bool", s, err)
	}
	return v, nil
}
