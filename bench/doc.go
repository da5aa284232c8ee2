// Bench runs the same jobs on the same broker, from the same input, with Millrace, with Kafka Streams and with nothing but
// the raw client, one after the other in turn, checks that their outputs agree, and prints what each costs.
//
//	make bench                       at most fifteen minutes
//	make bench-all                   the whole matrix; resumable
//	make bench-scale                 the cost of a record against keys, partitions and value sizes; resumable
//	make bench-quick                 a smoke test of the bench itself; its figures mean nothing
//	make bench-peer DIR=…            our Kafka Streams program against another
//	go run ./bench -jobs count -repetitions 5 -systems millrace,kafka-streams
//	go run ./bench -systems millrace -profile /tmp/profiles
//	go run ./bench -jobs gets -procs-per-core 1
//
// CPU counts in the system's own process from the first record to the end of the last commit, the broker's not. An output
// agrees if the last value of each key is right; how many output records there were on the way is printed, because
// systems that count may emit once per change or once per commit.
//
// A cell is one run: job/guarantee/caching/system/repetition. With caching on, each system emits as Kafka Streams does by
// default, a key's last value per commit or when its cache is full; off, every update. Each run's figures go into the
// results file when it ends; -resume runs only the cells that are not in it, -redo forgets some first.
package main
