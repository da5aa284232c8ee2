// Package task is one partition group of one sub-topology at work: buffers, processors, uncommitted state, and the unit
// that a commit moves.
//
// A Task is synchronous. It starts no goroutine, reads no clock, and reaches state and Kafka through its two ports, State
// and Producer. The contract with its caller, which is one goroutine:
//
//  1. New, Restoring, Start. Start only when the state has reached the end of its changelogs; read the source partitions
//     from the positions that Start was given.
//  2. Add each fetched batch in order; Process, then Punctuate, then give the Credits back to the fetcher, after every
//     turn, also one in which Process took nothing. Batches without records are worth adding: they move positions, and
//     the end that they report is what KIP-695 waits for.
//  3. Prepare when a commit is due, or PrepareTransaction with the transaction's Stamp. Then everything that was appended
//     must be acknowledged before the unit's offsets are committed; what a broker refused after it was sent is handed to
//     Refused of a task that Writes there, and what that returns is sent in the same interval. Processing may go on
//     meanwhile; a second Prepare may not come before Applied.
//  4. Committed when Kafka has the offsets, and not before. Only then may the unit be written to the state, and when it
//     is, Applied. The unit must not be touched after that.
//  5. When a commit has failed: Rewind, bring the state up to date, Start again from what Rewind returned, and read from
//     there. A unit that was Committed counts; it must reach the state, by Apply or by replay, before Start. Exactly once
//     an aborted transaction has left no changelog records that count, so the state is up to date as it is: Attach it again
//     (or leave it) and Start. If the outcome is not known, Rewind first, find out, and Start from the offsets that Kafka
//     has; the unit stays valid and may still be written to the state.
//  6. After an error of Process, Punctuate, Prepare or Refused only Rewind, Suspend and Close may follow. The error is a
//     *ProcessError with the coordinates of the record; what was thrown is in its chain. A processor that swallows an
//     error of its store or output does not hide it.
//
// Records that fail. A record that cannot be read, that user code fails with or panics on, or whose output cannot be written
// meets the topology's handler (topology.Handlers). Fail is the error above. After Skip and DeadLetter the task goes on
// behind the record: its position and its time are passed, what it wrote and forwarded before it failed stays, the rest of
// it is not done. A dead letter goes through Producer.Append like any output, so it is in the transaction that commits the
// record's offset; a record has one, however often it fails. If it cannot be written that is a *DeadLetterError, after one
// try. Responses counts the answers. Nobody is asked about errors of engines and of the cluster, nor about changelog
// records.
//
// A record at which a task keeps failing can be held (Hold): Process stops before it, so that its tries, and its failures,
// are apart from everything else (ProcessHeld). PassHeld passes it unprocessed.
//
// Time. Stream time is the highest timestamp that was taken up, by the topics' timestamp extractors where they have one; it
// comes back from the offsets' metadata. Windowed aggregations have stream times of their own (StreamTimes), which come back
// from their stores: State.Time.
//
// What is not committed is never in the State, and is in memory only: nothing has to be undone there, in either guarantee.
package task
