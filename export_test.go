package millrace

import "context"

// Purge does at once what a running node does every half minute.
func (n *Node) Purge(ctx context.Context) { n.purge(ctx) }
