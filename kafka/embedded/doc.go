// Package embedded is an in-process Kafka for the zero-setup start, examples and tests. It speaks the real protocol over
// loopback and keeps its data in memory. Where it differs from a real broker, the real one decides.
package embedded
