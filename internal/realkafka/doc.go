// Package realkafka runs real Apache Kafka brokers (KRaft, no ZooKeeper, no container) on loopback, for the tests and
// the benchmark that an in-process broker cannot stand in for.
//
// The duties of a caller:
//
//  1. Ask Available first. Its error is one sentence and says what to install.
//  2. Start a cluster with For (in a test; it is wiped at the end) or with Start (elsewhere; the caller wipes it).
//  3. Kill, Stop and Restart take the broker's number, 1 and up. A restarted broker has its old port and its old data.
//  4. Wipe ends every broker that this cluster started, and nothing else, and deletes their data.
//
// The jars come from Maven by the recipe in pom.xml, once, into the user's cache directory. Tests of this package carry the
// build tag realkafka and run by make test-kafka.
package realkafka
