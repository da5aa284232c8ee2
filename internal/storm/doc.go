// Storm asks three nodes on real Kafka as many questions as the machine holds, while a rebalance is forced again and again
// and, near the end, one of the nodes is killed (kill -9).
//
//	make storm DURATION=10m
//	go run ./internal/storm -duration 1m -clients 64
//
// The nodes are children of this process that run the same binary: a count of records by key. A feeder, the only writer of
// each input partition, knows which key is at which offset, so what a key's count is at each position. Every other second of
// a partition holds only records that are not counted, so that positions move on where no store changes. Each client is a
// goroutine that asks one question at a time, for a key by chance, of all nodes: five of eight as actors do, two by the same
// messages over HTTP, and one by the pages that people read, which tell no position.
//
// Every answer is checked:
//
//   - it is a value or a typed failure: anything else is untyped, and a failure that blames the question is a lie;
//   - it comes at most 50 ms after its deadline, or it is late. What this process itself stood still in that time, as a
//     clock of its own measures, is not counted;
//   - a value is what the feeder's history says for the position that it reports, and no client sees the position of a
//     partition go back; else it is a lie. Without a position, the count of a key must never fall, nor be above what was
//     ever written.
//
// Outside the 15 s after each fault at least 99 % must be values, at most 1 % Overloaded and 0.1 % DeadlineExceeded. After the
// last fault every partition must give a value again. A run prints one line of figures and exits with 1 if any of this does not
// hold, if it was asked less often than -least, or if no question met a rebalance, since then nothing was tried. The default of
// -least is what two cores hold that do nothing else; name less where they do.
//
// A rebalance is forced every 20 s, or at each quarter of a run shorter than 80 s, until the node is killed. That is 27 s before the end, so
// that there are ten calm ones after it; a run shorter than 45 s has none, and kills after two fifths of its time. In the 20 s
// of CI the rebalance comes after 5 s and the kill after 8: calm are the first 4 s, and the 12 after the kill are for the
// group to notice (6 s) and for the partitions to be taken over. That they were is what the last demand checks.
package main
