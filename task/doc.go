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
//  3. Prepare when a commit is due. Then everything that was appended must be acknowledged before the unit's offsets are
//     committed. Processing may go on meanwhile; a second Prepare may not come before Applied.
//  4. Committed when Kafka has the offsets, and not before. Only then may the unit be written to the state, and when it
//     is, Applied. The unit must not be touched after that.
//  5. When a commit has failed: Rewind, bring the state up to date, Start again from what Rewind returned, and read from
//     there. A unit that was Committed counts; it must reach the state, by Apply or by replay, before Start.
//  6. After an error of Process, Punctuate or Prepare only Rewind, Suspend and Close may follow. The error is a
//     *ProcessError with the coordinates of the record; what was thrown is in its chain. A processor that swallows an
//     error of its store or output does not hide it.
//
// What is not committed is never in the State, and is in memory only: nothing has to be undone there, in either guarantee.
package task
