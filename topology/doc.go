// Package topology is what a Millrace application computes, as pure data.
package topology
