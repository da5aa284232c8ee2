// Package member is the group membership as a pure state machine: (state, event, now) to (state, effects). It sends
// nothing and waits for nothing; the kafka room carries its effects out.
//
// The protocol is the cooperative one (KIP-429): partitions are kept while joining; what a new assignment takes away is
// announced, given up by the owner of the machine, and only then does the member join again without it.
//
// What a caller must do:
//
//  1. Call one method at a time, and carry the effects out in order before the next call.
//  2. Answer every Join, Sync, Heartbeat, Commit and Fetch exactly once, with the sequence, generation or token that it
//     carries; Transport stands for "no answer". Late and repeated answers are recognised and do nothing. A new Join
//     replaces one that is still under way, which should be cut.
//  3. Call Tick every heartbeat interval, in every phase.
//  4. Answer a delivered broker.Revoking with Released.
//
// What a caller gets: exactly one broker.OffsetsCommitted per Commit and one broker.OffsetsFetched per Offsets, at the
// latest when Leave is called; a broker.Lost exactly when the group has said that this member is none of its any more,
// and never because the group is silent (see Tick).
package member
