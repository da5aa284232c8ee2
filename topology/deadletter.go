package topology

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/record"
)

// The headers that a dead letter has behind those of the record that failed. The first six are Kafka Streams' (KIP-1034)
// under our prefix. All values are text; numbers are decimal.
const (
	// HeaderException is the Go type of the bare cause, HeaderMessage its whole message (up to 2,000 bytes), and
	// HeaderStacktrace where user code panicked (up to 8,000 bytes; missing if it did not).
	HeaderException  = "__millrace.errors.exception"
	HeaderMessage    = "__millrace.errors.message"
	HeaderStacktrace = "__millrace.errors.stacktrace"
	// HeaderTopic, HeaderPartition, HeaderOffset and HeaderTimestamp (milliseconds) are of the input record whose key and
	// value the dead letter has. They are missing where it has those of an output, or none.
	HeaderTopic     = "__millrace.errors.topic"
	HeaderPartition = "__millrace.errors.partition"
	HeaderOffset    = "__millrace.errors.offset"
	HeaderTimestamp = "__millrace.errors.timestamp"
	// HeaderStage, HeaderNode (missing if it is not known) and HeaderTask say where it failed.
	HeaderStage = "__millrace.errors.stage"
	HeaderNode  = "__millrace.errors.node"
	HeaderTask  = "__millrace.errors.task"
	// HeaderDestinationTopic and HeaderDestinationPartition are where an output should have gone (stage production); the
	// partition is missing if it was not chosen yet.
	HeaderDestinationTopic     = "__millrace.errors.destination.topic"
	HeaderDestinationPartition = "__millrace.errors.destination.partition"
)

const (
	maxMessage    = 2_000
	maxStacktrace = 8_000
)

// NewDeadLetter makes the record that a dead-letter topic gets: key, value (null stays null, empty stays empty) and
// headers of the input record that was in process; or, where there is none, of the output that could not be written; or,
// in a punctuation or a flush, neither key nor value. The headers above follow.
//
// Its timestamp is wallClock, in milliseconds, so that the topic's retention counts from the failure: reprocessing a
// record that is older than the retention must not lose it a second time. The record's own timestamp is in a header.
// The result shares the bytes of what failed.
func NewDeadLetter(c ErrorContext, err error, stack []byte, wallClock int64) record.Raw {
	r := record.Raw{Timestamp: max(wallClock, 0)}
	switch {
	case c.Input != nil:
		r.Key, r.Value, r.Headers = c.Input.Key, c.Input.Value, slices.Clone(c.Input.Headers)
	case c.Output != nil:
		r.Key, r.Value, r.Headers = c.Output.Key, c.Output.Value, slices.Clone(c.Output.Headers)
	}
	add := func(key, value string) {
		if value != "" {
			r.Headers = append(r.Headers, record.Header{Key: key, Value: []byte(value)})
		}
	}
	add(HeaderException, fmt.Sprintf("%T", bare(err)))
	add(HeaderMessage, cut(err.Error(), maxMessage))
	add(HeaderStacktrace, cut(string(stack), maxStacktrace))
	if c.Input != nil {
		add(HeaderTopic, c.Source.Topic)
		add(HeaderPartition, strconv.Itoa(int(c.Source.Partition)))
		add(HeaderOffset, strconv.FormatInt(c.Input.Offset, 10))
		add(HeaderTimestamp, strconv.FormatInt(c.Input.Timestamp, 10))
	}
	add(HeaderStage, c.Stage.String())
	add(HeaderNode, c.Node)
	add(HeaderTask, c.Task.String())
	add(HeaderDestinationTopic, c.Destination.Topic)
	if c.Destination.Topic != "" && c.Destination.Partition >= 0 {
		add(HeaderDestinationPartition, strconv.Itoa(int(c.Destination.Partition)))
	}
	return r
}

// bare is what was thrown, without the errors that only say where.
func bare(err error) error {
	var l located
	for errors.As(err, &l) {
		cause := errors.Unwrap(l)
		if cause == nil {
			return l
		}
		err, l = cause, nil
	}
	return err
}

// cut shortens text at a rune's boundary.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
