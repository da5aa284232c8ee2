// Package plan says what follows from a topology whose topics have partition counts: which tasks there are, what each reads,
// keeps and is made of. The node, the test kit's driver and the simulator are built from it, so that all three run the same
// tasks on the same state.
package plan
