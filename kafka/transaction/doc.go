// Package transaction is the producer's protocol as a pure state machine: (state, event, now) to (state, effects). It sends
// nothing and waits for nothing; the kafka room carries its effects out. One machine serves a producer slot for its whole
// life: after lost members, time-outs, expired ids and anything indefinite it initialises its transactional id again on
// the same object (KIP-691, KIP-360), and never has to be replaced.
//
// Without a transactional id the same machine is the idempotent producer: intervals are written side by side, nothing is
// committed, and a producer id that a broker has forgotten is replaced by another one.
//
// What a caller must do:
//
//  1. Call one method at a time, and carry the effects out in order before the next call.
//  2. Answer every request effect (InitProducerID, AddPartitions, AddOffsets, TxnOffsetCommit, EndTxn, Describe) exactly
//     once with Answered, every batch for which Sent was called exactly once with Produced, and every Refused with Replace
//     before anything else. Transport stands for "no answer".
//  3. Send only what Ready gives, in that order, and write the batches of one partition to one connection in that order.
//  4. Call Tick when Next says so.
//
// What a caller gets, whatever brokers answer: no EndTxn before every batch of the transaction has answered (a broker
// appends a late one to the transaction that has just been committed); no batch before its partition was added; no sequence
// that starts again without another epoch (a broker takes it for a duplicate and loses the records); no commit after offsets that
// were not taken; after anything indefinite another epoch before the next transaction; and exactly one answer for every
// Flush, Commit and Abort, except that an Abort leaves the flushes and the commit before it unanswered.
package transaction
