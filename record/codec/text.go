package codec

import (
	"encoding/base64"
	"unsafe"
)

var (
	// String writes the bytes of the string as they are, as Kafka's StringSerializer does for UTF-8. Decode is
	// zero-copy: the string shares the batch's memory; strings.Clone it to keep it long.
	String Codec[string] = stringCodec{}
	// Bytes writes bytes as they are. Decode is zero-copy: the slice must not be changed. The text form is base64url
	// without padding.
	Bytes Codec[[]byte] = bytesCodec{}
)

type stringCodec struct{}

func (stringCodec) Name() string                                { return "string" }
func (stringCodec) Ordered() bool                               { return true }
func (stringCodec) Encode(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (stringCodec) Decode(b []byte) (string, error) {
	return unsafe.String(unsafe.SliceData(b), len(b)), nil
}
func (stringCodec) ParseText(s string) (string, error) { return s, nil }
func (stringCodec) FormatText(v string) string         { return v }

type bytesCodec struct{}

func (bytesCodec) Name() string                                { return "bytes" }
func (bytesCodec) Ordered() bool                               { return true }
func (bytesCodec) Encode(dst []byte, v []byte) ([]byte, error) { return append(dst, v...), nil }
func (bytesCodec) Decode(b []byte) ([]byte, error)             { return b[:len(b):len(b)], nil }
func (bytesCodec) FormatText(v []byte) string                  { return base64.RawURLEncoding.EncodeToString(v) }

func (bytesCodec) ParseText(s string) ([]byte, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, notText("bytes", s, err)
	}
	return b, nil
}
