// Package broker is what a Kafka cluster can tell a stream thread, as plain data: fetched batches, group events,
// outcomes of commits, and error classes. The kafka room produces these values, the thread room consumes them, and a
// simulator can produce them without either. It imports record only.
package broker
