// Package router holds the gates: one process per store partition, at an address that outlives every incarnation of the
// store. A gate answers from what the threads have published, and forwards a question only while the store may answer.
//
//  1. A question that reaches a gate ends in a reply: from the store actor, or a typed failure from the gate, at once when
//     the store's lease ends. It never ends in a dead letter.
//  2. What may be answered is query.Decide's, a pure function of the published state. Nothing is decided here.
//  3. Publications are visible when the publishing call returns.
//  4. A later New for the same application on the same system takes the gates over.
package router
