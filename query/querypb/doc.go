// Package querypb is the vocabulary of questions on the wire.
//
// Whoever holds the PID of a store partition sends a *Get, *GetMany, *Range, *Count or *Open to it and receives one *Reply,
// which is a value or a Failure. *ListStores, *Locate and *ListRestores are about the node; the node's own PID and every
// gate answer them:
//
//  1. A question needs a sender (RequestFuture, Request, RequestWithCustomSender): one without is dropped and counted.
//  2. Messages are immutable once they are sent or received. A local asker and a store share their memory.
//  3. Keys and values are the encoded bytes of the store's codecs.
//  4. In Go the About of a question is optional: the gate knows its store and partition. What is set is checked.
//  5. query.FromReply turns a Reply with a failure into an error that package query's errors.Is and errors.As know.
package querypb

//go:generate sh -c "go build -o ${TMPDIR:-/tmp}/millrace-protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go && protoc --plugin=protoc-gen-go=${TMPDIR:-/tmp}/millrace-protoc-gen-go --go_out=. --go_opt=paths=source_relative query.proto"
