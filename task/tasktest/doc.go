// Package tasktest has the two ports of a task in memory: a State that units are applied to, and a Producer that keeps
// what it was given. Both can be told to fail. They are for tests of tasks and of what drives them.
package tasktest
