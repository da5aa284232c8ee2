// Package oracle says whether a world that has been through faults is the world that its inputs should have made. It is
// pure: it reads no broker and asks no node, so that its tests can hand it wrong worlds and see each of them refused.
//
// A world has jobs. A job adds amounts to keys: the word count adds 1 to each word of a line, the keyed sum adds a
// record's amount to its key. Both emit every update with the id of the input that caused it, so the outputs of a key
// are the prefix sums of its inputs in the order that the ids give, and nothing else can explain them.
package oracle
