// Package work is the benchmark's input and its expected output. Both follow from a fixed seed, so every system, in every
// run on every machine, reads the same bytes and must give the same answer.
package work
