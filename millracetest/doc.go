// Package millracetest tests topologies and nodes without a Kafka cluster. Nothing in Millrace depends on it.
//
// A [Driver] runs a topology on the caller's goroutine with a clock that the test moves: records go in with [Send], outputs
// come back from [Read], and the stores answer the same questions as those of a node, because a Driver is a
// [query.Client]. It is made of a node's own tasks, stores and store actors; what it replaces is Kafka, threads, and time.
//
// # What is true of a Driver
//
//   - A Send returns when everything that follows from its records is processed and committed, over all repartition
//     topics, so an aggregation emits once for each key of each Send.
//   - What a Send has committed is in its topics, and reaches a store's engine when somebody looks: a processor that reads more
//     than its task has at hand, a question of any kind, Advance, Restart, Crash. Until then units wait together, as if one
//     commit had made them. No answer and no restart tells the difference; the benchmark does: more
//     than 10^5 records/s, sent one by one on one core (docs/performance.md).
//   - A record whose processing fails takes nothing with it: outputs, changelog and stores are as before, and it is tried
//     again by whatever runs the topology next, as supervision would. With a handler that skips it, it is passed.
//   - [Driver.Restart], [Driver.Crash] and [Driver.LoseState] end every task and start it again on what a disk would have.
//   - A global store has everything that was sent to its topic before a task is given the next record.
//   - Time moves by [Driver.Advance] alone. Punctuations on the wall clock happen there.
//
// A Driver belongs to one goroutine, but for its questions, which any goroutine may ask.
//
// # Breaking nodes
//
// A [Cluster] is an application of real nodes on the embedded broker. Each [Member] can be stopped, killed, paused, and cut
// off, and has [Faults] of its own, which decide what happens at the points of package fault: an error, a panic, a delay,
// a wait, or a crash. Those of the disk are in the file system under the stores. A Member's [Probe] keeps everything that the
// node publishes, and its answers to questions that are asked through the Member, so that a test can say what must have been
// seen, and prints it as a transcript when it was not.
//
// # Knowing what is right
//
// An [Oracle] runs the topology by itself, on what the cluster's topics hold, and [Check] compares: every committed output is
// there once and in its key's order; each changelog's fold, the store that one member serves, and the reference are the same;
// the group has committed the end of each source, and no transaction is open; every state and every transition that was
// published is in a table of package lifecycle; no answer has gone back behind an earlier one; and each fault that was
// planned has fired. [Expect] and [ExpectLast] add a reference that is not the topology's own doing. [CheckClosed] ends the
// cluster, and looks for goroutines, files and locks that are left.
//
// Nothing here sleeps: a test waits for a state, an event, or a fault that has fired, and fails after [Patience].
package millracetest
