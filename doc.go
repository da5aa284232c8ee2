// Package millrace is a stream-processing runtime on Apache Kafka in which every stream thread and every state store is
// an actor. It is the public door: describe what is computed with package topology, hand it to New, and run the Node.
//
// The contract with the caller:
//
//  1. New validates and starts nothing. Run joins the group, restores state, processes, and returns when the node has
//     stopped: nil after Shutdown or a cancelled context, else the one failure that ended it. A second Run is an error.
//  2. Inputs, state and outputs move together, in transactions: whatever fails, each input record counts once in the stores
//     and in what consumers with read_committed see. With WithGuarantee(AtLeastOnce) none is lost, and the records since the
//     last commit may count again. State that Kafka has not committed is never on disk, in either.
//  3. Broker outages never end a node. The one exception is a cluster that cannot be reached when Run starts.
//  4. A query ends in a value or in one *query.Failure that says what to do, before the caller's deadline, in every
//     lifecycle state, after Shutdown too.
//  5. Callbacks may call anything on the node, Shutdown included.
//  6. The library installs no signal handler, sets no runtime limit and never exits the process.
package millrace
