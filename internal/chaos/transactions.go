package main

import "github.com/millrace-io/millrace"

// transactions are the counters of one process.
type transactions struct {
	Committed, Aborted, Fenced, Reinits, CommitUnknown, ProducersCreated uint64
}

func transactionsOf(*millrace.Node) transactions { return transactions{} }

func (t *transactions) add(o transactions) {
	t.Committed += o.Committed
	t.Aborted += o.Aborted
	t.Fenced += o.Fenced
	t.Reinits += o.Reinits
	t.CommitUnknown += o.CommitUnknown
	t.ProducersCreated += o.ProducersCreated
}
