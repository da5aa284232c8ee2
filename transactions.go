package millrace

import (
	"time"

	"github.com/millrace-io/millrace/kafka"
)

// TransactionCounts say what the transactional producers of a node have done since Run. They are zero at least once.
type TransactionCounts struct {
	// Committed and Aborted are transactions.
	Committed, Aborted uint64
	// Fenced is how often another producer has taken one of the node's transactional ids over, Reinits how often a
	// producer initialised its own again (KIP-691), CommitUnknown how many commits had an outcome that the coordinator
	// could not tell, and that was found out from the committed offsets.
	Fenced, Reinits, CommitUnknown uint64
	// Producers is how many were created. A node creates one for each thread, and keeps it whatever happens.
	Producers uint64
}

// Transactions may be called from any goroutine, before Run and after it too.
func (n *Node) Transactions() (sum TransactionCounts) {
	t := n.tree.Load()
	if t == nil || !n.exactlyOnce() {
		return sum
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sum = t.retired
	for _, s := range t.slots {
		sum.add(s.producer.Counts())
	}
	sum.Producers = uint64(n.producers.Load())
	return sum
}

// Blocked is how long the node's threads have stood still, taken together, because a commit or the producer had to catch up
// (blocked-time-ns-total in Kafka Streams); of threads that are there now. It may be called from any goroutine.
func (n *Node) Blocked() (sum time.Duration) {
	t := n.tree.Load()
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.slots {
		sum += s.Blocked()
	}
	return sum
}

// keep adds what a slot has counted that is let go of. The mutex is held.
func (t *tree) keep(s *slot) {
	t.retired.add(s.producer.Counts())
	t.node.meters.retire(s)
}

func (t *TransactionCounts) add(c kafka.Counts) {
	t.Committed += c.Committed
	t.Aborted += c.Aborted
	t.Fenced += c.Fenced
	t.Reinits += c.Reinits
	t.CommitUnknown += c.CommitUnknown
}
