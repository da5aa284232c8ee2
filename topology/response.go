package topology

import (
	"fmt"

	"github.com/millrace-io/millrace/record"
)

// Response is what a handler answers about one record that failed. The list is closed.
type Response uint8

const (
	// Fail ends the incarnation of the thread with the error; the record is tried again when supervision restarts it. It
	// is the answer where there is no handler.
	Fail Response = iota
	// Skip leaves the record out and goes on.
	Skip
	// DeadLetter writes the record to the topology's dead-letter topic, in the same transaction, and goes on.
	DeadLetter
)

// String is the response in one word.
func (r Response) String() string {
	if r > DeadLetter {
		return fmt.Sprintf("response(%d)", uint8(r))
	}
	return [...]string{"fail", "skip", "dead-letter"}[r]
}

// Stage is where a record failed. The list is closed.
type Stage uint8

const (
	// Deserialization: the source's codec could not read the key or the value.
	Deserialization Stage = iota
	// Processing: user code returned an error or panicked, for a record, in a punctuation or in a flush.
	Processing
	// Production: a record for an output could not be encoded, or cannot be written.
	Production
	// Stages is how many there are.
	Stages
)

// String is the stage's name.
func (s Stage) String() string {
	if s >= Stages {
		return fmt.Sprintf("stage(%d)", uint8(s))
	}
	return [...]string{"deserialization", "processing", "production"}[s]
}

// ErrorContext is what is known about a record that failed. It and what it refers to may be read until the handler
// returns, and not be changed.
type ErrorContext struct {
	Task  record.TaskID
	Stage Stage
	// Node is the source, processor or sink; empty where that is not known, as after a panic.
	Node string
	// Source and Input are the record that was in process, as it was read: with its offset, timestamp, headers and bytes.
	// In a punctuation, in a flush, and for an output that a broker refused later there is none: Source.Topic is empty and
	// Input nil.
	Source record.TopicPartition
	Input  *record.Raw
	// Attempt is which try of Input this is, as far as this node knows: 1, and more once its task is in quarantine, whose
	// back-off lies between the tries. So a handler can answer Fail a few times before it answers Skip or DeadLetter.
	Attempt int
	// Destination and Output are for the stage Production only: where the output should have gone (the partition is
	// -1 if it was not chosen yet), and the output as far as it was encoded.
	Destination record.TopicPartition
	Output      *record.Raw
}

// The handlers decide about records that fail. They are called on the task's goroutine, also for several tasks of one
// topology at the same time, and must not block. A handler that panics has answered Fail.
//
// The error is a *task.ProcessError for Deserialization and Processing (its Stack is set after a panic) and a *SinkError
// for Production, with a *broker.Error in its chain if that is what happened.
//
// What a failed record did up to its failure stays: what it wrote into stores and what it forwarded, as in Kafka Streams.
// What it would have done after its failure is not done. The task does not undo half a record: that would need a journal
// of every write, paid for by every record. Only Fail takes everything back to the last commit.
//
// Errors of stores' engines and of the cluster itself are not about a record, and no handler is asked about them. Neither
// is one about a changelog record, which a store cannot do without.
type (
	// DeserializationHandler decides about a record that its source's codecs could not read.
	DeserializationHandler func(ErrorContext, error) Response
	// ProcessingHandler decides about a record, a punctuation or a flush in which user code failed.
	ProcessingHandler func(ErrorContext, error) Response
	// ProductionHandler decides about an output that cannot be written: its codec or partitioner refused it, the
	// producer did (too large), or a broker did, later.
	ProductionHandler func(ErrorContext, error) Response
)

// Handlers are what a topology does about records that fail. A nil one answers Fail.
type Handlers struct {
	Deserialization DeserializationHandler
	Processing      ProcessingHandler
	Production      ProductionHandler
	// DeadLetterTopic is the name of the dead-letter topic in Kafka; empty if there is none.
	DeadLetterTopic string
}

// Answer asks the handler of c's stage.
func (h *Handlers) Answer(c ErrorContext, err error) Response {
	switch {
	case c.Stage == Deserialization && h.Deserialization != nil:
		return h.Deserialization(c, err)
	case c.Stage == Processing && h.Processing != nil:
		return h.Processing(c, err)
	case c.Stage == Production && h.Production != nil:
		return h.Production(c, err)
	}
	return Fail
}
