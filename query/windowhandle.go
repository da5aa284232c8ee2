package query

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

// The kinds of stores whose keys end with times, as the topology names them.
const (
	windowKind  = "window"
	sessionKind = "session"
)

// WindowHandle is a typed name of a window store; topology.WindowStore is one. (A session store needs no more than a
// Handle; topology.SessionStore is one.)
type WindowHandle[K, V any] interface {
	Handle[K, V]
	// WindowSize is the distance from the start of a window to its end.
	WindowSize() time.Duration
}

// windowHandle is a handle by composite keys. Its key codec has the name of the raw keys' codec, by which the store knows
// it.
type windowHandle[K, V any] struct{ Handle[K, V] }

// KeyCodec implements Handle.
func (h windowHandle[K, V]) KeyCodec() codec.Codec[record.Windowed[K]] {
	raw := h.Handle.KeyCodec()
	if h.StoreKind() == sessionKind {
		return windowKeys[K]{codec.SessionWindowed(raw), raw.Name(), false}
	}
	size := time.Duration(0)
	if w, ok := h.Handle.(WindowHandle[K, V]); ok {
		size = w.WindowSize()
	}
	return windowKeys[K]{codec.TimeWindowed(raw, size), raw.Name(), true}
}

// windowKeys reads the keys of a window or session store: those of Kafka Streams' serdes, and behind a window's its
// sequence number.
type windowKeys[K any] struct {
	codec.Codec[record.Windowed[K]]
	name     string
	sequence bool
}

// Name implements codec.Codec.
func (c windowKeys[K]) Name() string { return c.name }

// Decode implements codec.Codec.
func (c windowKeys[K]) Decode(b []byte) (w record.Windowed[K], err error) {
	if !c.sequence {
		return c.Codec.Decode(b)
	}
	if _, _, _, ok := record.SplitWindowKey(b); !ok {
		return w, &codec.Error{Codec: c.name, Reason: fmt.Sprintf("%d bytes are no key with a start and a sequence number", len(b))}
	}
	return c.Codec.Decode(b[:len(b)-(record.WindowSuffix-8)])
}

// wants makes sure that the handle is of the kind that a read is for.
func (b *binding[K, V]) wants(ctx context.Context, kind string) error {
	if b.handle.StoreKind() == kind {
		return nil
	}
	return b.otherKind(ctx, "this reads a store of kind "+kind)
}

// wantsKeys makes sure that the store is read by its keys as they are.
func (b *binding[K, V]) wantsKeys(ctx context.Context) error {
	switch b.handle.StoreKind() {
	case windowKind:
		return b.otherKind(ctx, "Fetch and the functions beside it read its windows")
	case sessionKind:
		return b.otherKind(ctx, "FetchSessions and the functions beside it read its sessions")
	}
	return nil
}

func (b *binding[K, V]) otherKind(ctx context.Context, detail string) error {
	f := New(StateStoreTypeMismatch, b.handle.StoreName(), NoPartition)
	f.Detail = fmt.Sprintf("the handle is of a store of kind %s; %s", b.handle.StoreKind(), detail)
	return b.mistake(ctx, f)
}
