package millrace

import (
	"context"

	"github.com/millrace-io/millrace/store"
)

// Purge does at once what a running node does every half minute.
func (n *Node) Purge(ctx context.Context) { n.purge(ctx) }

// WithDirectory changes how the state directory is opened.
func WithDirectory(f func(*store.DirectoryOptions)) Option {
	return func(o *options) { o.directory = f }
}
