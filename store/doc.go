// Package store keeps the state of tasks on disk: a state directory per application and node, one Pebble database per
// task, the restore of a store from its changelog, and the actor that answers questions to a store.
//
// The contract with the caller:
//
//  1. A state directory belongs to one process. OpenDirectory locks it; a second process gets a *DirectoryInUseError.
//  2. What TaskState.Apply writes - entries, changelog offsets, position, clock - is on disk as a whole or not at all,
//     after any crash. What a crash loses is the latest of them, and Offset then says from where to restore. There is no
//     write-ahead log: the changelog is it, so apply a unit only after Kafka has its changelog records.
//  3. State that cannot be used is never an obstacle and never silently wrong: it is moved aside and an empty one opened,
//     and the OpenReport says why. Only a newer format, a state that is open already, and a directory in which nothing
//     can be written are errors.
//  4. One writer, any number of readers. Readers see committed state. A writer whose incarnation was replaced (Lease) gets
//     ErrLeaseRevoked.
//  5. Restore every store that has a changelog before its first Apply, and again after a failed commit.
//  6. Call Close when the task leaves, Abandon when it was fenced or the state has failed. After that every call answers
//     ErrStateStoreClosed. Nothing of the engine's ever panics through, and nothing ends the process.
//  7. Entries and values that are returned belong to the caller; keys and values that are handed in are copied.
//  8. Window and session stores (StoreSpec.Kind "window" and "session") are read and written by the changelog's keys: the
//     key, then the start (8) and a sequence number (4), or the end (8) and the start (8), big endian. Get, Scan and all
//     questions to the actor take and give exactly these keys, in byte order, in one key space: keys of two lengths
//     interleave, so whoever reads a range splits each key (record.SplitWindowKey, SplitSessionKey) and compares; the actor
//     does so for a Range with Windows. What is before LiveFrom has expired and may be there or not: Get and Scan give it
//     then and their caller leaves it out, the actor never shows it. How and why is in expiry.go.
//  9. A store that is InMemory answers the same calls in the same way and has nothing on disk: it begins empty at every
//     OpenTask, without an offset, and is restored from the beginning of its changelog.
//  10. The changelog decides about null and empty: a null value deletes, an empty value is a value, a null key is an error.
package store
