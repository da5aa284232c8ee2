//go:build race

package store

import "flag"

// The race detector makes a property cost ten times as much, and finds what it finds in the first few cases; all of them
// run without it. The command line still overrides this.
func init() {
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
}
