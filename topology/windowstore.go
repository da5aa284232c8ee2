package topology

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

// Windowed is a key within a window; see record.Windowed.
type Windowed[K any] = record.Windowed[K]

// retentionMargin is for how much longer than the store the changelog keeps records, as in Kafka Streams: the broker
// counts from its own clock, the store from stream time.
const retentionMargin = 24 * time.Hour

// WindowStore is a typed name of a window store: values by key and start of a window.
type WindowStore[K, V any] struct {
	name            string
	keys            codec.Codec[K]
	values          codec.Codec[V]
	size, retention time.Duration
	noChangelog     bool
	inMemory        bool
	config          map[string]string
}

// NewWindowStore declares a store of windows of one size (for sliding windows the time difference). A window is kept
// until stream time is retention past its start; an aggregation needs at least size and grace, or, with sliding windows,
// twice the difference and grace. Both count in whole milliseconds.
//
// The changelog's keys are Kafka Streams' (record.AppendWindowSuffix), and its cleanup.policy is compact,delete with a
// retention.ms of retention and a day.
func NewWindowStore[K, V any](name string, keys codec.Codec[K], values codec.Codec[V], size, retention time.Duration) WindowStore[K, V] {
	return WindowStore[K, V]{name: name, keys: keys, values: values, size: size, retention: retention}
}

// WithoutChangelog returns the store without its changelog: its content is lost with the state directory.
func (s WindowStore[K, V]) WithoutChangelog() WindowStore[K, V] { s.noChangelog = true; return s }

// InMemory returns the store kept in memory only; see KeyValueStore.InMemory.
func (s WindowStore[K, V]) InMemory() WindowStore[K, V] { s.inMemory = true; return s }

// WithChangelogConfig returns the store with topic settings of its own for the changelog, by Kafka's names.
func (s WindowStore[K, V]) WithChangelogConfig(config map[string]string) WindowStore[K, V] {
	s.config = maps.Clone(config)
	return s
}

// StoreName is the store's name.
func (s WindowStore[K, V]) StoreName() string { return s.name }

// StoreKind is "window".
func (s WindowStore[K, V]) StoreKind() string { return windowKind }

// KeyCodec says how its keys are written.
func (s WindowStore[K, V]) KeyCodec() codec.Codec[K] { return s.keys }

// ValueCodec says how its values are written.
func (s WindowStore[K, V]) ValueCodec() codec.Codec[V] { return s.values }

// WindowSize is how long its windows are, as it was declared.
func (s WindowStore[K, V]) WindowSize() time.Duration { return s.size }

// Retention is how long it keeps a window behind stream time, as it was declared.
func (s WindowStore[K, V]) Retention() time.Duration { return s.retention }

func (s WindowStore[K, V]) declaration() *storeNode {
	d := &storeNode{spec: StoreSpec{Name: s.name, Kind: s.StoreKind(), Changelog: !s.noChangelog, InMemory: s.inMemory,
		WindowSize: s.size, Retention: s.retention, ChangelogConfig: windowedChangelog(s.retention, s.config)}}
	if s.keys != nil && s.values != nil {
		d.spec.KeyCodec, d.spec.ValueCodec, d.spec.KeyOrdered = s.keys.Name(), s.values.Name(), s.keys.Ordered()
		text := codec.TimeWindowed(s.keys, s.size)
		d.spec.ParseKey = func(t string) ([]byte, error) {
			w, err := text.ParseText(t)
			if err != nil {
				return nil, err
			}
			b, err := text.Encode([]byte{}, w)
			return append(b, 0, 0, 0, 0), err
		}
		d.spec.FormatKey, d.spec.FormatValue = formatWindowKey(s.keys), formatter(s.values)
	}
	return d
}

// formatWindowKey gives key@start, and #n behind it for the n-th duplicate of a store that keeps them.
func formatWindowKey[K any](keys codec.Codec[K]) func([]byte) (string, error) {
	format := formatter(keys)
	return func(b []byte) (string, error) {
		key, start, seq, ok := record.SplitWindowKey(b)
		if !ok {
			return "", fmt.Errorf("%x is not a window store's key", b)
		}
		text, err := format(key)
		if text += "@" + strconv.FormatInt(start, 10); seq != 0 {
			text += "#" + strconv.FormatUint(uint64(seq), 10)
		}
		return text, err
	}
}

func windowedChangelog(retention time.Duration, own map[string]string) map[string]string {
	config := map[string]string{
		"cleanup.policy": "compact,delete",
		"retention.ms":   strconv.FormatInt((retention + retentionMargin).Milliseconds(), 10),
	}
	maps.Copy(config, own)
	return config
}

// SessionStore is a typed name of a session store: values by key, start and end of a session.
type SessionStore[K, V any] struct {
	name        string
	keys        codec.Codec[K]
	values      codec.Codec[V]
	retention   time.Duration
	noChangelog bool
	inMemory    bool
	config      map[string]string
}

// NewSessionStore declares a store of sessions. A session is kept until stream time is retention past its end; an
// aggregation needs at least gap and grace. The changelog's keys are Kafka Streams' (record.AppendSessionSuffix); its
// settings are those of a window store's.
func NewSessionStore[K, V any](name string, keys codec.Codec[K], values codec.Codec[V], retention time.Duration) SessionStore[K, V] {
	return SessionStore[K, V]{name: name, keys: keys, values: values, retention: retention}
}

// WithoutChangelog returns the store without its changelog: its content is lost with the state directory.
func (s SessionStore[K, V]) WithoutChangelog() SessionStore[K, V] { s.noChangelog = true; return s }

// InMemory returns the store kept in memory only; see KeyValueStore.InMemory.
func (s SessionStore[K, V]) InMemory() SessionStore[K, V] { s.inMemory = true; return s }

// WithChangelogConfig returns the store with topic settings of its own for the changelog, by Kafka's names.
func (s SessionStore[K, V]) WithChangelogConfig(config map[string]string) SessionStore[K, V] {
	s.config = maps.Clone(config)
	return s
}

// StoreName is the store's name.
func (s SessionStore[K, V]) StoreName() string { return s.name }

// StoreKind is "session".
func (s SessionStore[K, V]) StoreKind() string { return sessionKind }

// KeyCodec says how its keys are written.
func (s SessionStore[K, V]) KeyCodec() codec.Codec[K] { return s.keys }

// ValueCodec says how its values are written.
func (s SessionStore[K, V]) ValueCodec() codec.Codec[V] { return s.values }

// Retention is what it was declared with.
func (s SessionStore[K, V]) Retention() time.Duration { return s.retention }

func (s SessionStore[K, V]) declaration() *storeNode {
	d := &storeNode{spec: StoreSpec{Name: s.name, Kind: s.StoreKind(), Changelog: !s.noChangelog, InMemory: s.inMemory,
		Retention: s.retention, ChangelogConfig: windowedChangelog(s.retention, s.config)}}
	if s.keys != nil && s.values != nil {
		d.spec.KeyCodec, d.spec.ValueCodec, d.spec.KeyOrdered = s.keys.Name(), s.values.Name(), s.keys.Ordered()
		text := codec.SessionWindowed(s.keys)
		d.spec.ParseKey = func(t string) ([]byte, error) {
			w, err := text.ParseText(t)
			if err != nil {
				return nil, err
			}
			return text.Encode([]byte{}, w)
		}
		d.spec.FormatKey, d.spec.FormatValue = formatter(text), formatter(s.values)
	}
	return d
}
