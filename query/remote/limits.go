package remote

import "time"

// What peers may use. A question over a limit is answered with Overloaded; a peer over one is closed.
const (
	// MaxConnections is how many connections a listener keeps open; the next one is closed at once.
	MaxConnections = 4_096
	// MaxPeers is how many streams of questions there may be at a time.
	MaxPeers = 1_024
	// MaxPeerQuestions is how many questions of one peer may wait for an answer, or for its being read.
	MaxPeerQuestions = 8_192
	// MaxPeerBytes bounds what is kept for one peer, questions and answers together; MaxBytes for all of them.
	MaxPeerBytes = 32 << 20
	MaxBytes     = 256 << 20
	// MaxMessage is the most bytes of one message on a stream, which may hold many questions, that a node takes. What a
	// Client takes is MaxAnswer: one page, or one very long value.
	MaxMessage = 8 << 20
	MaxAnswer  = 64 << 20
	// MaxRefusals ends the stream of a peer that sends what is not admitted.
	MaxRefusals = 1_000
	// MaxFollowed is how many owners' addresses a Client connects to beyond those that it was given.
	MaxFollowed = 1_000
	// HelloTime is how long a connection may take to say what it is, and a stream to introduce itself.
	HelloTime = 5 * time.Second
	// StuckTime ends the stream of a peer that does not read.
	StuckTime = 10 * time.Second
	// ConnectTime is how long a Client waits for a node to take a connection and to introduce itself.
	ConnectTime = 2 * time.Second
	// PingTime without a sign of life makes either end ask for one, which may take PingWait.
	PingTime = 10 * time.Second
	PingWait = 5 * time.Second
)

const (
	// batchBytes and batchMessages bound one message of a stream; a single question or answer may be longer.
	batchBytes    = 1 << 20
	batchMessages = 512
	// retryTime is how long a failed connection attempt is taken for the answer to all who ask meanwhile.
	retryTime = 50 * time.Millisecond
	// window is how much a peer may have under way on the connection.
	window = 1 << 20
)
