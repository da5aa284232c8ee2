package codec

import (
	"encoding/json"
	"reflect"
)

// JSON writes T as encoding/json does; its text form is the JSON itself. It is not ordered, and as a key it needs a T
// whose JSON is the same every time (no maps with interface keys, no custom marshaller that varies).
func JSON[T any]() Codec[T] { return jsonCodec[T]{name: "json:" + reflect.TypeFor[T]().String()} }

type jsonCodec[T any] struct{ name string }

func (c jsonCodec[T]) Name() string { return c.name }
func (jsonCodec[T]) Ordered() bool  { return false }

// Copies is false: a custom UnmarshalJSON may keep what it is given.
func (jsonCodec[T]) Copies() bool { return false }

func (c jsonCodec[T]) Encode(dst []byte, v T) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return dst, &Error{Codec: c.name, Reason: "cannot write the value", Cause: err}
	}
	return append(dst, b...), nil
}

func (c jsonCodec[T]) Decode(b []byte) (T, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		var zero T
		return zero, &Error{Codec: c.name, Reason: "not the JSON of the type", Cause: err}
	}
	return v, nil
}

func (c jsonCodec[T]) ParseText(s string) (T, error) { return c.Decode([]byte(s)) }

// FormatText gives the JSON, or an empty string for a value that has none.
func (c jsonCodec[T]) FormatText(v T) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
