// Package topology is what a Millrace application computes, as pure data: typed handles of topics and stores, a builder,
// sub-topologies, and the closures that a task runs. It knows no Kafka client, no store engine and no goroutine.
//
// What you can rely on:
//
//  1. Types are checked by the compiler. Records go from node to node as values through typed closures; nothing is boxed
//     per record, and operators, counts and sinks allocate nothing per record for codecs that allocate nothing.
//  2. The same calls in the same order give the same node names and sub-topology numbers. Sub-topologies are the parts
//     that streams and shared stores hold together, cut at topics, numbered by their first source.
//  3. Build returns every mistake at once, joined, each a *BuildError that names the node.
//  4. Count, Reduce and Aggregate emit once per key per commit, unless EveryUpdate is given; they drop records without
//     key or value, counted by reason; a result has the highest timestamp of what went into it. The same in windows:
//     CountWindows, ReduceWindows, AggregateWindows over tumbling, hopping and sliding windows, CountSessions and so on over
//     sessions; results have a Windowed key, once per changed window per commit, or, OnWindowClose, once per window.
//  5. What a processor forwards goes through all nodes below before Forward returns.
//  6. Errors say where they come from, wrapped once: *DeserializationError, *ProcessorError (the user's code),
//     *StoreError, *SinkError. Panics of the user's code go through to the task.
//  7. A handler per stage (OnDeserializationError, OnProcessingError, OnProductionError, or Always) answers Fail, Skip or
//     DeadLetter about each record that fails; without one, Fail. A dead letter keeps key, value and headers, null ones
//     too, says in further headers where and why it failed, and is written once, in the transaction that moves the
//     record's offset (DeadLetterTopic, NewDeadLetter). Build refuses a dead-letter topic that comes back.
//  8. A windowed aggregation has a stream time of its own, the highest timestamp that it has taken. Restarts, rewinds and
//     moves keep it, so they change nothing about which records are late. A window takes records until stream time has
//     passed its end and the grace period (sessions: and the gap), to the millisecond; a record for closed windows only
//     is dropped and counted, and Instance.StreamTimes names the record that has moved stream time. MaxTimestampJump
//     bounds what one record may do to it.
//  9. A range over keys is in their order or an error (ErrRangeNotOrdered), in stores of every kind: never an empty answer
//     because a codec does not keep the order. Windows that are older than a store's retention are invisible at once.
//
// What you must do:
//
//  1. Declare each handle once, as a variable, and use it everywhere.
//  2. Call a Builder from one goroutine, and an Instance from its task's goroutine only.
//  3. Return the errors of Forward, of emit and of stores as they are, or wrapped with %w.
//  4. Send a stream whose key was changed Through a repartition topic before it is aggregated: records with one key meet
//     only within one partition. This is not detected.
//  5. Give a window store at least the windows' size and grace as retention; Build checks it. What the windows cost is what
//     is open: a key in each, times size/advance for hopping windows, and for sliding ones up to two for each record.
//  6. Not keep a decoded string or slice of a record longer than you need: it may hold a whole fetched batch
//     (record/codec). Values read from stores are the caller's own.
package topology
