package kafka

// prose is the part of docs/transactions.md that no table says.
const prose = `# Transactions

Written by ` + "`go test ./kafka -run TestTransactionsDocument -rewrite`" + ` from the tables in ` + "`kafka/classify_transactions.go`" + `, ` + "`kafka/transaction/state.go`" + ` and
the test that compares this page with them. KIP-691 asked for errors sorted into fatal, abortable and no error at all, and for
transactions that are initialised again on the same producer. This page says, row by row, what Millrace does.

## How records, offsets and the end of a transaction go

A thread slot has one ` + "`kafka.Producer`" + ` for its whole life. What a task appends belongs to an interval; ` + "`Flush`" + ` ends it, ` + "`Commit`" + ` commits it,
` + "`Abort`" + ` takes back everything that is not committed. Under exactly-once an interval is one transaction.

1. A partition's first record in an interval announces it: AddPartitionsToTxn goes out while records are still being collected, many
   partitions in one request, each once in a transaction. While the markers of the last transaction are written (51) it is repeated
   every 1 to 5 ms.
2. A batch goes out when its partition's AddPartitionsToTxn has answered 0, up to five of a partition at a time, each under the next
   sequence. Records of the next interval wait in the producer until EndTxn of this one has answered 0: a broker takes a late batch
   into the transaction that has just been committed.
3. The flush is answered when every batch has its answer. A commit then adds the group's offsets (AddOffsetsToTxn, TxnOffsetCommit with
   generation, member and instance id), and only then sends EndTxn. If the group refuses the offsets, no EndTxn(commit) follows.
4. A commit without a clear answer is repeated, the same one, on another connection, for twice the transaction's time-out. After
   anything indefinite (a lost answer to AddPartitionsToTxn, Produce, AddOffsetsToTxn, TxnOffsetCommit or EndTxn) InitProducerId raises
   the epoch before the next transaction begins, so that whatever is still on its way bounces off.
5. An abort waits until nothing is in flight. If every answer was a clear one it is EndTxn(abort), under the same epoch and with
   sequences that go on; otherwise InitProducerId, which aborts and raises the epoch in one step, with sequences from 0. Sequences never
   start again without another epoch: a broker would take the records for duplicates and lose them silently.

The protocol is a pure state machine, ` + "`kafka/transaction`" + `; what it promises is listed in its package comment, and checked by a test that plays
random answers, losses and time.

**Class** is what a caller does: Retry is the producer's own business; Abort means that the transaction is lost and the producer is not; Migrated that
somebody else owns the tasks; CommitUnknown that the committed offsets have to tell; Record that one record cannot be written; Fatal
that supervision decides; Ignore that it is no error.

No producer is ever replaced: there is no case in which another object is made for a slot.
`
