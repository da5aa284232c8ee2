package transaction

import (
	"fmt"
	"slices"
)

// State is where the producer stands with its transaction coordinator.
type State uint8

const (
	// Uninitialized: there is no producer id and epoch that may be used; they are being asked for, or will be.
	Uninitialized State = iota
	// Ready: the epoch is good and the coordinator knows of no open transaction. Without a transactional id, the state in
	// which batches are sent.
	Ready
	// InTransaction: the coordinator may have been told of a partition.
	InTransaction
	// Committing: everything is written; offsets are being added, or the commit was sent.
	Committing
	// CommitUnknown: the commit was sent and got no clear answer. The same commit is repeated, nothing else.
	CommitUnknown
	// AbortableError: the transaction is lost, and nothing but an Abort helps.
	AbortableError
	// Aborting: what was in flight is waited for, then the transaction is aborted or the epoch raised.
	Aborting
	// Fenced: another producer has taken the transactional id over. The Abort after the one that said so takes it back.
	Fenced
	// Fatal: configuration, authorisation or a bug. An Abort asks the coordinator once more.
	Fatal
)

var stateNames = [...]string{"UNINITIALIZED", "READY", "IN_TRANSACTION", "COMMITTING", "COMMIT_UNKNOWN", "ABORTABLE_ERROR", "ABORTING", "FENCED", "FATAL"}

// String is the state's name in upper case, as in Kafka's own documents.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return stateNames[s]
}

// Move is one line of the transition table.
type Move struct {
	From, To State
	Why      string
}

// Moves is the transition table: every change of state that can happen, each with its cause.
func Moves() []Move { return slices.Clone(moves) }

var moves = []Move{
	{Uninitialized, Ready, "InitProducerId answered 0"},
	{Uninitialized, Fenced, "InitProducerId answered 90"},
	{Uninitialized, Fatal, "InitProducerId was refused"},
	{Ready, InTransaction, "a record is for a partition"},
	{Ready, Committing, "a commit of offsets alone"},
	{Ready, Uninitialized, "the brokers have forgotten an idempotent producer"},
	{InTransaction, Committing, "a commit, after the flush"},
	{InTransaction, AbortableError, "a batch or a partition failed"},
	{InTransaction, Aborting, "an abort"},
	{InTransaction, Fatal, "the transactional id is not authorised any more"},
	{Committing, Ready, "EndTxn answered 0 at once"},
	{Committing, Uninitialized, "EndTxn answered 0, but something before it was indefinite: another epoch first"},
	{Committing, CommitUnknown, "EndTxn got no clear answer"},
	{Committing, AbortableError, "offsets or commit were refused"},
	{Committing, Fatal, "the transactional id is not authorised any more"},
	{CommitUnknown, Uninitialized, "the repeated EndTxn answered 0: another epoch first"},
	{CommitUnknown, AbortableError, "the repeated EndTxn answered 48: it was aborted"},
	{CommitUnknown, Aborting, "an abort, after the outcome could not be found out"},
	{CommitUnknown, Fatal, "the transactional id is not authorised any more"},
	{AbortableError, Aborting, "an abort"},
	{Aborting, Ready, "aborted, or the epoch is raised"},
	{Aborting, Fenced, "InitProducerId answered 90"},
	{Aborting, Fatal, "the abort was refused"},
	{Fenced, Aborting, "an abort after the one that told of the fence: take the id back"},
	{Fatal, Aborting, "an abort: perhaps it is allowed by now"},
}

// become is the only writer of the state. A move that the table does not hold is a bug of this package.
func (m *Machine) become(to State) {
	from := m.state
	if !slices.ContainsFunc(moves, func(v Move) bool { return v.From == from && v.To == to }) {
		panic("transaction: invalid transition [" + from.String() + " -> " + to.String() + "]")
	}
	m.state = to
}
