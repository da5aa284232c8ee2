// Package measure is how a system under test reports on itself: every system does it the same way, the Java peer included.
// Time and CPU count from the first record seen; time ends with the last thing that moved, CPU half a second later.
package measure
