// Package faultinjection is a test that a user of Millrace would write: a node is broken at two points of its supervision
// tree, and what its operators and its callers see is asserted. The test is the example.
package faultinjection
