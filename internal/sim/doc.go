// Sim runs whole clusters on one goroutine from a seed, and checks that every record counted once.
//
//	make sim SEEDS=1000            two processes, half of the seeds each
//	make sim SEEDS=1 SEED=42       one seed, the same as ever
//	go run ./internal/sim -seed 42 -transcript
//
// What is real: the loops of the stream threads, tasks, topology, overlay, the assignor, the group member and the producer as
// the pure machines of kafka/member and kafka/transaction, kafka's table of errors, the stores with Pebble on memory file
// systems that lose what was not synced, the router's gates with query.Decide, and the store actors, which run on the asker's
// goroutine here. What is a model: brokers, logs with control markers, the group coordinator and the transaction coordinator,
// which answer as a real Apache Kafka 4.3.1 was seen to; the network; the clocks; and the shells that carry effects out,
// which are goroutines in the product.
//
// A scenario is a seed, the size of the cluster, and a list of faults with their times. A seed makes a scenario; everything
// that happens then follows from it: the next message, its delay, the next step of a loop are events of one queue, and one
// generator of numbers decides about all of them. Pebble's own goroutines decide nothing: memtables are larger than a run,
// a flush is an event that is waited for, and a crash keeps what was synced, or all.
//
// The truth is known: keys and values of the input, and so what a single run without faults would have made of them.
// While a run goes on each commit, each answer to a question and each position is held against it; when the faults are over
// everything must be processed within a bound, and outputs, changelogs and stores must be what they have to be.
//
// A seed that fails is made smaller, fault by fault and then record by record, and what is left is written as a file, which
// the tests play from then on.
package main
