package main

import "github.com/millrace-io/millrace"

// counters are what one process has done.
type counters struct {
	Committed, Aborted, Fenced, Reinits, CommitUnknown, Producers uint64
	// ThreadRestarts is how often supervision replaced a thread.
	ThreadRestarts uint64
}

func countersOf(node *millrace.Node) counters {
	t := node.Transactions()
	c := counters{Committed: t.Committed, Aborted: t.Aborted, Fenced: t.Fenced, Reinits: t.Reinits, CommitUnknown: t.CommitUnknown, Producers: t.Producers}
	for _, th := range node.Threads() {
		if th.Epoch > 1 { // the first incarnation is 1, and 0 has not started
			c.ThreadRestarts += th.Epoch - 1
		}
	}
	return c
}

func (c *counters) add(o counters) {
	c.Committed += o.Committed
	c.Aborted += o.Aborted
	c.Fenced += o.Fenced
	c.Reinits += o.Reinits
	c.CommitUnknown += o.CommitUnknown
	c.Producers += o.Producers
	c.ThreadRestarts += o.ThreadRestarts
}
