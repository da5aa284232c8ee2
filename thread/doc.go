// Package thread is the stream thread: the actor that owns one Loop, and the Loop, which turns what Kafka says into
// tasks, records into state and outputs, and both into commits.
//
// What a reader can rely on:
//
//  1. Loop is synchronous and clock-free. Step takes the time, drains the slot's inbox, processes a bounded amount and
//     returns its next deadline. It never blocks: ports only submit, and what they did comes back as an event.
//  2. The thread's state (lifecycle.Thread) is written here and nowhere else, and published before the change has any
//     other effect.
//  3. A commit is one file, commit.go, which says at each phase what a crash there costs. State reaches the disk only
//     after Kafka has said that it is committed.
//  4. Assigned, revoked and lost are three different things: a revoked task is committed before it is given up, a lost one
//     is dropped without a commit, and tasks that stay are not interrupted by either.
//  5. A failure ends the incarnation, not the slot: group member, producer and connections are lent to the next one, so a
//     restart costs no rebalance.
package thread
