package topology

import (
	"errors"
	"fmt"
)

// BuildError is one mistake in a topology. Builder.Build joins all of them.
type BuildError struct {
	// Node is the node, store or topic that is wrong.
	Node string
	// Reason is one of the constants below.
	Reason Reason
	// Detail says what to change.
	Detail string
}

func (e *BuildError) Error() string {
	return fmt.Sprintf("topology: %q: %s: %s", e.Node, e.Reason, e.Detail)
}

// Reason is the kind of a BuildError.
type Reason string

// The mistakes that Build, Bind, CheckPartitions and RepartitionCounts find.
const (
	NoSources              Reason = "no sources"
	InvalidName            Reason = "invalid name"
	NameCollision          Reason = "names collide"
	DuplicateNode          Reason = "duplicate node name"
	DuplicateStore         Reason = "duplicate store name"
	CodecMismatch          Reason = "two codecs for one name"
	MissingCodec           Reason = "missing codec"
	MissingFunction        Reason = "missing function"
	UnknownStore           Reason = "unknown store"
	UnknownNode            Reason = "unknown node"
	UnusedStore            Reason = "unused store"
	TwoAggregations        Reason = "two aggregations on one store"
	NeverWritten           Reason = "repartition topic is never written"
	NeverRead              Reason = "repartition topic is never read"
	Cycle                  Reason = "cycle"
	DeadEnd                Reason = "dead end"
	OtherBuilder           Reason = "stream of another builder"
	InvalidPartitions      Reason = "invalid partition count"
	UnknownPartitions      Reason = "unknown partition count"
	NotCoPartitioned       Reason = "not co-partitioned"
	ConflictingSettings    Reason = "conflicting settings"
	MissingDeadLetterTopic Reason = "missing dead-letter topic"
	UnusedDeadLetterTopic  Reason = "unused dead-letter topic"
	DeadLetterRead         Reason = "dead-letter topic is read"
	InvalidWindows         Reason = "invalid windows"
	ShortRetention         Reason = "retention is too short"
	GlobalStoreWritten     Reason = "global store is written"
	GlobalTopicRead        Reason = "topic of a global store is read twice"
)

// DeserializationError says that a record of a source is not what its codec reads.
type DeserializationError struct {
	// Source is the node, Topic its topic in Kafka.
	Source, Topic string
	// Part is "key" or "value".
	Part  string
	Cause error
}

func (e *DeserializationError) Error() string {
	return fmt.Sprintf("source %q: cannot read the %s of a record of topic %q: %v", e.Source, e.Part, e.Topic, e.Cause)
}
func (e *DeserializationError) Unwrap() error { return e.Cause }
func (*DeserializationError) located()        {}

// ProcessorError is an error that the user's code at a node returned.
type ProcessorError struct {
	Node  string
	Cause error
}

func (e *ProcessorError) Error() string { return fmt.Sprintf("processor %q: %v", e.Node, e.Cause) }
func (e *ProcessorError) Unwrap() error { return e.Cause }
func (*ProcessorError) located()        {}

// SinkError is a record that a sink could not write: its codec or partitioner refused it, or Output.Send failed.
type SinkError struct {
	Node, Topic string
	Cause       error
}

func (e *SinkError) Error() string {
	return fmt.Sprintf("sink %q: cannot write to topic %q: %v", e.Node, e.Topic, e.Cause)
}
func (e *SinkError) Unwrap() error { return e.Cause }
func (*SinkError) located()        {}

// StoreError is a store that could not be read or written, or bytes in it that its codec refuses.
type StoreError struct {
	Store string
	Cause error
}

func (e *StoreError) Error() string { return fmt.Sprintf("store %q: %v", e.Store, e.Cause) }
func (e *StoreError) Unwrap() error { return e.Cause }
func (*StoreError) located()        {}

// ErrRangeNotOrdered is found with errors.Is in the error of a range that has no answer, whatever the kind of the store.
var ErrRangeNotOrdered = errors.New("range not ordered")

// RangeError is a range that was refused: the key codec does not keep the order of keys, or an end is above the other.
// An empty answer, or some part of the store, would look like a good one.
type RangeError struct {
	// Codec is the key codec's name.
	Codec string
	// Problem is one phrase for a person.
	Problem string
}

func (e *RangeError) Error() string { return "range not ordered: " + e.Problem }

// Is makes it ErrRangeNotOrdered.
func (e *RangeError) Is(target error) bool { return target == ErrRangeNotOrdered }

// TimestampJumpError is a record whose timestamp is further ahead of stream time than MaxTimestampJump allows. It is the
// Cause of a *ProcessorError, so the processing handler decides about the record; stream time has not moved.
type TimestampJumpError struct {
	// Timestamp is the record's, StreamTime what the operator had reached, Max what it may move by; in milliseconds.
	Timestamp, StreamTime, Max int64
}

func (e *TimestampJumpError) Error() string {
	return fmt.Sprintf("timestamp %d is %d ms ahead of stream time %d; at most %d are allowed", e.Timestamp, e.Timestamp-e.StreamTime, e.StreamTime, e.Max)
}

// located marks errors that name their place already. An error of a sink or a store passes through the user's code on
// its way up; wrapped again it would look like the user's, and a fenced producer like a bug in a processor.
type located interface {
	error
	located()
}

func wrap(node string, err error) error {
	if err == nil {
		return nil
	}
	var l located
	if errors.As(err, &l) {
		return err
	}
	return &ProcessorError{Node: node, Cause: err}
}

func storeError(store string, err error) error {
	if err == nil {
		return nil
	}
	return &StoreError{Store: store, Cause: err}
}
