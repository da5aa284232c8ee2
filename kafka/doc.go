// Package kafka is the shell around the client library: group membership, fetcher, producer, admin and the one table of
// broker errors. It imports nothing of ours but record and broker, and what it hands out are their types.
//
// What a caller can rely on:
//
//  1. Each role (group, join, fetch, produce, restore, admin) has its own connections. A broker answers one connection in
//     order, so a request behind an idle fetch would wait for it.
//  2. What is transient is retried here, with back-off and jitter; it shows as a broker.ConnectionChanged and never ends a
//     member, a fetcher or a producer.
//  3. Every error is a *broker.Error with the class that Classify gives it.
//  4. Submitting methods do not block; completions go to the deliver function, on a goroutine of the role, in order.
package kafka
