// Package matrix holds, as data, what becomes of a query in each state of a node: the 22 rows of lifecycle state and
// situation, with what the KIP-216 draft, the adopted KIP-216 and Kafka Streams 4.x do and what Millrace does.
//
// The tests of three levels are made from it, and docs/queries.md is rendered from it:
//
//  1. the lifecycle is injected into the router and its gates (query/router);
//  2. an embedded broker and a real node go through the transitions;
//  3. two processes on real Kafka do, and the one is asked from the other.
//
// Each row names, for each level, its test, or says why there is none. Whoever writes a level runs over Rows, skips those
// whose Proof has a reason, and wants for each Case what Want says; Publish is for level 1 alone, the other levels bring
// the node into Row.State and Row.Situation. A row's ID never changes.
package matrix
