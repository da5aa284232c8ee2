package query

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
)

// NoPartition is a Failure's Partition when the question was not about one.
const NoPartition int32 = -1

// Failure is the one error of every question. It is, by errors.Is, its kind's sentinel, ErrRetryable or ErrFatal, and
// ErrInvalidStateStore; its chain holds ErrStateStoreClosed or ErrEmptyStateStore where the draft wraps one. It travels
// over the wire without Cause, but for those two.
type Failure struct {
	Kind  Kind
	Store string
	// Partition is NoPartition if the question was not about one.
	Partition int32
	// NodeState and ThreadState are states as package lifecycle spells them when the failure was decided; empty if not
	// known. The thread is the one that has, or had, the store partition.
	NodeState, ThreadState string
	// Epoch is the lease epoch as of which it was decided; 0 if there was no lease.
	Epoch uint64
	Retry RetryClass
	// RetryAfter is how long to wait before asking again; 0 means at once, or not at all.
	RetryAfter time.Duration
	// Owner is the host:port of the node that has the store partition; empty if not known.
	Owner string
	// Progress is how far the restore is; nil if none is under way.
	Progress *lifecycle.Progress
	// LastKey is the last key that a scan delivered, encoded; nil if it delivered none.
	LastKey []byte
	// Left is how long the restore is expected to take yet; 0 if that is not known.
	Left time.Duration
	// Reached is where the store is that a question with AtLeast has waited for in vain; nil otherwise.
	Reached record.Position
	// Detail says what is wrong with a question that is the caller's mistake. It is shown to remote callers.
	Detail string
	// Cause is for this process only.
	Cause error
}

// New makes a failure of a kind with the retry advice of the table.
func New(kind Kind, store string, partition int32) *Failure {
	i := kind.info()
	return &Failure{Kind: kind, Store: store, Partition: partition, Retry: i.retry, RetryAfter: i.after}
}

// Invalid makes an InvalidQuery.
func Invalid(store string, partition int32, detail string) *Failure {
	f := New(InvalidQuery, store, partition)
	f.Detail = detail
	return f
}

func (f *Failure) retry() RetryClass {
	if f.Retry == 0 {
		return f.Kind.Retry()
	}
	return f.Retry
}

// Fatal says that asking this node again cannot help.
func (f *Failure) Fatal() bool { return f.retry().fatal() }

// Is makes errors.Is know the kind's sentinel, the category and the root.
func (f *Failure) Is(target error) bool {
	switch target {
	case ErrInvalidStateStore:
		return true
	case ErrRetryable:
		return !f.Fatal()
	case ErrFatal:
		return f.Fatal()
	}
	s := f.Kind.Sentinel()
	return s != nil && s == target
}

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Error says which store, what is the matter, as of which states, and what to do. It is safe to show to anyone: the
// cause is not in it.
func (f *Failure) Error() string {
	i := f.Kind.info()
	var b strings.Builder
	fmt.Fprintf(&b, "query: %s: ", i.name)
	f.subject(&b)
	f.matter(&b, i)
	f.states(&b)
	b.WriteString(": " + f.advice(i))
	return b.String()
}

func (f *Failure) subject(b *strings.Builder) {
	if f.Store == "" {
		b.WriteString("the node")
		return
	}
	fmt.Fprintf(b, "store %q", f.Store)
	if f.Partition != NoPartition {
		fmt.Fprintf(b, " partition %d", f.Partition)
	}
}

// matter says what is wrong; a restore says how far it is.
func (f *Failure) matter(b *strings.Builder, i kindInfo) {
	if p := f.Progress; p != nil && f.Kind == StreamThreadRebalancing {
		b.WriteString(" is being restored on this node: " + Progressed(*p))
		if f.Left > 0 {
			b.WriteString(", about " + rough(f.Left))
		}
	} else {
		b.WriteString(": " + i.what)
	}
	if f.Detail != "" {
		b.WriteString(" (" + f.Detail + ")")
	}
}

func (f *Failure) states(b *strings.Builder) {
	if f.NodeState != "" {
		b.WriteString("; node " + f.NodeState)
	}
	if f.ThreadState != "" {
		b.WriteString(", thread " + f.ThreadState)
	}
}

func (f *Failure) advice(i kindInfo) string {
	advice := i.advice
	if f.retry() != f.Kind.Retry() {
		advice = map[RetryClass]string{Here: "ask again here", Rediscover: "open the store again, at its owner", Elsewhere: "ask another node", Never: "correct it"}[f.retry()]
	}
	if f.Owner != "" {
		advice += " (" + f.Owner + ")"
	}
	if f.retry() == Here && f.RetryAfter > 0 {
		advice += " (in " + f.RetryAfter.String() + ")"
	}
	return advice
}
