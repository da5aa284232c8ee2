// Package lifecycle is the only definition of node, thread, task and store states: constants with a sentence each,
// one transition table per kind, and Become, which is the only way to change one. The thread room writes these states,
// the query room derives its failures from them, and docs/lifecycle.md is rendered from the tables.
package lifecycle
