package query

import (
	"errors"
	"strconv"
	"time"
)

// Kind is which failure it is. The set is closed for a release and only ever grows; the numbers are those of the wire.
// A Kind that this release does not know comes from a newer node: its Retry still says what to do.
type Kind uint8

// The kinds, in the order of precedence: when several apply, the first wins (see Decide).
const (
	// UnknownStateStore: the topology has no store of that name.
	UnknownStateStore Kind = iota + 1
	// StateStoreTypeMismatch: the store is of another kind, or is written with other codecs, than the asker reads with.
	StateStoreTypeMismatch
	// InvalidQuery: the question cannot be answered by any store; Detail says why.
	InvalidQuery
	// IteratorClosed: a scan was used after its end.
	IteratorClosed
	// PartitionNotInStore: the store has fewer partitions than that.
	PartitionNotInStore
	// StreamThreadNotRunning: the node is stopping or has stopped or failed, and no store of it can be acquired.
	StreamThreadNotRunning
	// StateStoreNotAvailable: the same, and a View, scan or question that was under way has lost its store.
	StateStoreNotAvailable
	// StreamThreadNotStarted: the node has not been run yet.
	StreamThreadNotStarted
	// InvalidStateStorePartition: the partition that was asked for by its number exists and is not on this node.
	InvalidStateStorePartition
	// StateStoreMigrated: the store partition has left this node, or the View's lease has ended.
	StateStoreMigrated
	// StreamThreadRebalancing: the partition is being assigned, opened, restored or restarted here.
	StreamThreadRebalancing
	// MetadataUnavailable: the node has no view of the group and its topics yet.
	MetadataUnavailable
	// StoreFailure: the store's engine failed.
	StoreFailure
	// Overloaded: too many questions are waiting for this store partition.
	Overloaded
	// DeadlineExceeded: the asker's deadline passed, or it stopped waiting.
	DeadlineExceeded
)

// RetryClass is what the asker should do about a failure.
type RetryClass uint8

const (
	// Here: ask the same node again, after RetryAfter.
	Here RetryClass = iota + 1
	// Rediscover: find the owner of the store partition (Owner, if it is known), and Open again.
	Rediscover
	// Elsewhere: this node will not answer any more; another one may.
	Elsewhere
	// Never: no node can answer this question.
	Never
)

// String gives the word used on the wire and over HTTP.
func (r RetryClass) String() string {
	if r < Here || r > Never {
		return "unspecified"
	}
	return [...]string{"here", "rediscover", "elsewhere", "never"}[r-1]
}

// fatal is the draft's category: no retry on this node can help.
func (r RetryClass) fatal() bool { return r == Elsewhere || r == Never }

// Errors that every Failure is, by errors.Is: the root, and one of the two categories.
var (
	ErrInvalidStateStore = errors.New("query: invalid state store")
	ErrRetryable         = errors.New("query: retryable")
	ErrFatal             = errors.New("query: fatal")
)

// Internal errors of the draft that a Failure may wrap: a store was found closed, or was not found.
var (
	ErrStateStoreClosed = errors.New("query: the state store is closed")
	ErrEmptyStateStore  = errors.New("query: the state store is not on this node")
)

// One sentinel for each kind, for errors.Is.
var (
	ErrUnknownStateStore          = errors.New("query: UnknownStateStore")
	ErrStateStoreTypeMismatch     = errors.New("query: StateStoreTypeMismatch")
	ErrInvalidQuery               = errors.New("query: InvalidQuery")
	ErrIteratorClosed             = errors.New("query: IteratorClosed")
	ErrPartitionNotInStore        = errors.New("query: PartitionNotInStore")
	ErrStreamThreadNotRunning     = errors.New("query: StreamThreadNotRunning")
	ErrStateStoreNotAvailable     = errors.New("query: StateStoreNotAvailable")
	ErrStreamThreadNotStarted     = errors.New("query: StreamThreadNotStarted")
	ErrInvalidStateStorePartition = errors.New("query: InvalidStateStorePartition")
	ErrStateStoreMigrated         = errors.New("query: StateStoreMigrated")
	ErrStreamThreadRebalancing    = errors.New("query: StreamThreadRebalancing")
	ErrMetadataUnavailable        = errors.New("query: MetadataUnavailable")
	ErrStoreFailure               = errors.New("query: StoreFailure")
	ErrOverloaded                 = errors.New("query: Overloaded")
	ErrDeadlineExceeded           = errors.New("query: DeadlineExceeded")
)

// kindInfo is a row of the error table.
type kindInfo struct {
	name     string
	sentinel error
	retry    RetryClass
	// after is how long to wait before asking again when nothing better is known.
	after time.Duration
	// what and advice make the text.
	what, advice string
}

// kinds is the error table, by Kind.
var kinds = [...]kindInfo{
	UnknownStateStore: {"UnknownStateStore", ErrUnknownStateStore, Never, 0,
		"the topology has no such store", "check the name"},
	StateStoreTypeMismatch: {"StateStoreTypeMismatch", ErrStateStoreTypeMismatch, Never, 0,
		"the store is not of the type that was asked for", "read it as what the topology declares it to be"},
	InvalidQuery: {"InvalidQuery", ErrInvalidQuery, Never, 0,
		"the question is not valid", "correct it"},
	IteratorClosed: {"IteratorClosed", ErrIteratorClosed, Never, 0,
		"the scan has ended", "start another"},
	PartitionNotInStore: {"PartitionNotInStore", ErrPartitionNotInStore, Never, 0,
		"the store has no such partition", "ask for a partition below its count"},
	StreamThreadNotRunning: {"StreamThreadNotRunning", ErrStreamThreadNotRunning, Elsewhere, 0,
		"the node is not running", "ask another node"},
	StateStoreNotAvailable: {"StateStoreNotAvailable", ErrStateStoreNotAvailable, Elsewhere, 0,
		"the node stopped while the store was in use", "ask another node"},
	StreamThreadNotStarted: {"StreamThreadNotStarted", ErrStreamThreadNotStarted, Here, 200 * time.Millisecond,
		"the node has not been started", "ask again when it runs"},
	InvalidStateStorePartition: {"InvalidStateStorePartition", ErrInvalidStateStorePartition, Rediscover, 0,
		"the partition is not on this node", "ask its owner"},
	StateStoreMigrated: {"StateStoreMigrated", ErrStateStoreMigrated, Rediscover, 0,
		"the partition has moved, or was opened anew", "open the store again, at its owner"},
	StreamThreadRebalancing: {"StreamThreadRebalancing", ErrStreamThreadRebalancing, Here, 100 * time.Millisecond,
		"the partition is being assigned or restored", "ask again here"},
	MetadataUnavailable: {"MetadataUnavailable", ErrMetadataUnavailable, Here, 100 * time.Millisecond,
		"the node does not know the group and its topics yet", "ask again here"},
	StoreFailure: {"StoreFailure", ErrStoreFailure, Elsewhere, 500 * time.Millisecond,
		"the store's engine failed", "see the node's log"},
	Overloaded: {"Overloaded", ErrOverloaded, Here, 20 * time.Millisecond,
		"too many questions are waiting for this partition", "ask again later"},
	DeadlineExceeded: {"DeadlineExceeded", ErrDeadlineExceeded, Here, 0,
		"there was no answer before the asker stopped waiting", "ask again with more time"},
}

// Kinds lists every kind of this release, in order of precedence.
func Kinds() []Kind {
	all := make([]Kind, 0, len(kinds)-1)
	for k := UnknownStateStore; int(k) < len(kinds); k++ {
		all = append(all, k)
	}
	return all
}

func (k Kind) known() bool { return k > 0 && int(k) < len(kinds) }

// info is the table's row; a kind of a newer release has a row without a sentinel.
func (k Kind) info() kindInfo {
	if k.known() {
		return kinds[k]
	}
	return kindInfo{name: "Kind(" + strconv.Itoa(int(k)) + ")", retry: Elsewhere, what: "a failure that this release does not know", advice: "see the node that answered"}
}

// String gives the name, the draft's without "Exception".
func (k Kind) String() string { return k.info().name }

// Sentinel is the error that errors.Is knows the kind by; nil for a kind of a newer release.
func (k Kind) Sentinel() error { return k.info().sentinel }

// Retry is what the kind advises if a Failure says nothing else.
func (k Kind) Retry() RetryClass { return k.info().retry }

// ParseKind finds a kind by its name.
func ParseKind(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}
