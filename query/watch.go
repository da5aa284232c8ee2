package query

import (
	"context"
	"sync/atomic"
)

// Watch lets a scan see without a message that something has changed where it reads. A client in the same process arms it
// with the count of everything that its node has published; a scan whose count has moved on asks again whether its store
// still answers, before it delivers one more entry. A client of another process leaves it alone.
//
// The easy version is a message for each entry, which is what the draft describes. It makes a scan twenty times slower.
//
// A Watch belongs to one goroutine.
type Watch struct {
	published *atomic.Uint64
	seen      uint64
}

type watchKey struct{}

// WithWatch gives a context that carries w to the client.
func WithWatch(ctx context.Context, w *Watch) context.Context {
	return context.WithValue(ctx, watchKey{}, w)
}

// WatchOf is the context's Watch, or nil.
func WatchOf(ctx context.Context) *Watch {
	w, _ := ctx.Value(watchKey{}).(*Watch)
	return w
}

// Arm is called by a client before the question that it was asked is decided. It does nothing to nil.
func (w *Watch) Arm(published *atomic.Uint64) {
	if w != nil {
		w.published, w.seen = published, published.Load()
	}
}

func (w *Watch) armed() bool { return w.published != nil }

func (w *Watch) changed() bool { return w.published.Load() != w.seen }
