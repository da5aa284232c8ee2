// Package actors is the shell around protoactor: the system, supervision, and asking. Nothing else in Millrace decides
// about restarts.
//
// What a caller can rely on:
//
//  1. A supervised failure is published before its consequence is sent: who sees the restart has seen the cause.
//  2. Restarts are bounded: exponential back-off with a cap and jitter, and after too many within a window the child is
//     given up. What happens then is the Answer's.
//  3. Ask ends in a reply or an error before its context does, whatever became of the actor that was asked.
//  4. A panic keeps its stack: it arrives at the supervisor as a *Panic.
package actors
