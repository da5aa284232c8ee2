//go:build race

package main

// The race detector makes everything some ten times slower, and there is one goroutine of ours.
func init() { repeated, first = 5, 5 }
