// Package fault names the points of a node at which a test can break it. A node that is made with millrace.WithFaults calls
// its [Hook] at each of them; what the hook returns, panics with, or waits for happens there. A node without one pays a
// comparison with nil.
//
// The kit in package millracetest decides what happens at which point how often; this package is what the runtime and the
// kit have in common, and depends on neither.
package fault
