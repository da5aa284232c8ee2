// Package record holds what every other room agrees on: records with and without types, topic partitions,
// headers, and Kafka's default partitioner. It imports nothing of ours.
//
// Null, empty and absent are never mixed up here: Kafka's null is "absent" (a nil slice in a Raw, a set NoKey or
// NoValue in a Record); an empty value is present and has length zero.
package record
