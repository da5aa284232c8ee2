package topology

import "github.com/millrace-io/millrace/record"

// reader tries a source's codecs on a record again, after a panic.
type reader struct {
	source     string
	key, value func([]byte) error
}

func readerOf[K, V any](source string, t Topic[K, V]) reader {
	key := func(b []byte) error { _, err := t.keys.Decode(b); return err }
	value := func(b []byte) error { _, err := t.values.Decode(b); return err }
	return reader{source, key, value}
}

// Unreadable says whether a panic with this record was its source's codec's, and whether on its "key" or its "value".
// A codec that indexes into bytes that are not there is as usual in Go as one that returns an error, and it must meet the
// same handler. To find out again costs only the record that failed; to note for each record that it is being decoded
// would cost all of them.
func (in *Instance) Unreadable(topic string, raw *record.Raw) (source, part string, ok bool) {
	r, known := in.readers[topic]
	switch {
	case !known:
	case raw.Key != nil && panics(r.key, raw.Key):
		return r.source, "key", true
	case raw.Value != nil && panics(r.value, raw.Value):
		return r.source, "value", true
	}
	return "", "", false
}

func panics(decode func([]byte) error, b []byte) (did bool) {
	defer func() { did = recover() != nil }()
	_ = decode(b)
	return false
}
