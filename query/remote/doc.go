// Package remote lets other processes ask a node's stores: as actors, by the PIDs of its gates, and over HTTP.
//
// A node that listens has one address for both. What comes in is told apart by its first bytes: HTTP/2 is the protocol of
// protoactor's remoting, HTTP/1 goes to the handler of package httpapi. So the owner that a failure names can be asked by
// either kind of client.
//
// Three ways to ask:
//
//  1. Dial gives a query.Client for Go programs. It needs no port of its own: answers come back on the stream that the
//     questions went out on. It follows the owners that failures name. With an address that begins with http:// or
//     https:// it asks over HTTP/1 instead, for networks that let nothing else through.
//  2. Any protoactor program that uses the library's own remoting sends the messages of querypb to a gate's PID,
//     <application>/query/<store>/<partition> at the node's address. Such a caller must itself listen, at an address that the
//     node can reach: the library answers by a connection from the node to the asker.
//  3. Everybody else uses HTTP.
//
// The library's own endpoint is not used on the node, only its wire protocol: it queues without a bound for a peer that does
// not read, dies of a message type that it does not know, and carries Stop, Watch and spawn requests from anybody to any
// actor. Here a peer reaches the gates and nothing else. A message that is not a question of querypb, that goes to another
// actor or that wants to be answered at another address than the peer's own is refused and counted; see Refusals.
//
// On an address that other machines can reach, Bind demands mutual TLS or a bearer token.
//
// Every question ends before its asker's deadline in a value or a *query.Failure, whatever happens to the other process:
// StreamThreadNotRunning if the node cannot be reached, StateStoreNotAvailable if the connection is lost while it is asked
// (both: ask elsewhere), DeadlineExceeded if it stands still.
package remote
