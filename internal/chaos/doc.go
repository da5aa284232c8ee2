// Chaos runs three brokers and three nodes, takes them down one after the other while records keep coming, and checks in
// the end that every record counted exactly once.
//
//	make chaos CYCLES=20 SEED=7 FILE=totals.json
//	go run ./internal/chaos -cycles 5 -guarantee at_least_once
//	go run ./internal/chaos -cycles 30 -storm
//	make chaos CYCLES=10 CHAOS_FLAGS='-faults lose-quorum,stop-in-commit'
//
// Each cycle kills (kill -9), stops (SIGSTOP for longer than the session time-out, then SIGCONT) or restarts one node, or
// kills or restarts one broker: which one, when and for how long is a pure function of the seed. From the sixth cycle on,
// which is more than an ordinary check runs, a cycle may also kill two of the three brokers at once, for longer than the
// transaction time-out and while a node is in a commit, so that it cannot be told how that ends; or stop a node when the
// coordinator shows its transaction between AddOffsets and EndTxn. With -faults, cycles try the named kinds only, from the
// first one on. A longer run begins with the faults of the shorter one of the same seed and flags. A cycle ends when every
// node is RUNNING, every task has one owner, every replica is in sync, and the committed offsets are past everything that
// was fed until then. With -storm, faults come three at a time, and the nodes are not given time to recover in between.
// With -strict, nodes that run at_least_once are checked for exactly_once, which shows that the check can fail.
//
// With -rolling there are no other faults: the nodes are restarted one after the other, as an upgrade does it: SIGTERM, an
// absence of -down, and a start with the same state directory, staying in the group. Meanwhile every partition of every store
// is asked every 20 ms through a client of each node, which follows owners. The time in which a partition is refused is the
// longest that any of them goes from one value to the next, so it holds the last commit, the absence, the start and the restore;
// a value is what the default read returns, which only an owner that runs answers. It must be at most -beyond longer than the
// process was away, no task may be on another node afterwards, and all that is checked at the end of other runs holds too.
//
//	make rolling RESTARTS=6
//	go run ./internal/chaos -rolling -cycles 3 -brokers 3 -down 5s
//
// The nodes are children of this process that run the same binary; they embed a word count with its repartition topic and
// a keyed sum. What they did is checked by package oracle against the feeder's own books, with a read_committed reader of
// its own (package wire). The run prints one line and exits with 1 if anything was wrong, if it hung (it says what it
// waited for, and shows the nodes' last states and the ends of their logs), or if no fault hit an open transaction, since
// then nothing was tried.
//
// Counters of a node die with it. Each process therefore appends them to a file, and the last line of each file counts;
// what a killed process did in the quarter of a second before its end is not in the figures. Aborted transactions are
// counted once more in the log, by their abort markers.
package main
