// Package embedded is an in-process Kafka for the zero-setup start, examples and tests. It speaks the real protocol over
// loopback and keeps its data in memory. Where it differs from a real broker, the real one decides.
//
// Any Kafka client can use it at Addrs, to feed an application and to read what it writes. A topic that an application reads
// or writes has to be made first: by a client, or at once with Start(kfake.SeedTopics(partitions, names...)).
package embedded
