package matrix

import (
	"fmt"

	"github.com/millrace-io/millrace/query"
)

// Row is one state of the node and one situation.
type Row struct {
	// ID is stable and names the row's tests; Number is the row's in the table of facts.
	ID     string
	Number int
	// State is of the node; Situation is what is asked, and of what.
	State, Situation string
	// Draft, Adopted, IQv1 and IQv2 are what the KIP-216 draft and the adopted text say and what Kafka Streams 4.x does in
	// store() and in query(). R and F are the draft's categories.
	Draft, Adopted, IQv1, IQv2 string
	// Ours in a phrase, for the page; Cases are exact.
	Ours  string
	Cases []Case
	// Levels are the proofs, level 1 first.
	Levels [3]Proof
	// Except are cases that the test of a level leaves out.
	Except []Exception
}

// Exception is a case that cannot be reached at a level, and why.
type Exception struct {
	Level        int
	Case, Reason string
}

// NA is why a case is left out at a level; empty if it is not.
func (r *Row) NA(level int, c *Case) string {
	for _, e := range r.Except {
		if e.Level == level && e.Case == c.Name {
			return e.Reason
		}
	}
	return r.At(level).NA
}

// Proof is the name of a test, or the reason why there is none.
type Proof struct{ Test, NA string }

// At is the proof at a level, 1 to 3.
func (r *Row) At(level int) Proof { return r.Levels[level-1] }

// Case is one question in a row's situation.
type Case struct {
	Name string
	// Publish is what the node publishes, one step a string, on a node that is CREATED with the store "counts" of two
	// partitions, endpoint here:1 and a thread-1. The steps are:
	//
	//	count             the number of partitions becomes known
	//	node STATE, thread STATE, thread-2 STATE
	//	open P, restore P, serve P, fail P, revoke P [ENDPOINT], standby P LAG
	//	owner P ENDPOINT  the group's assignment names the owner
	//	pause
	//	view, scan        the asker opens a View, or reads one entry of a scan with pages of two
	//	global STEP       open, restore, serve, fail, view or thread STATE, of the global store "countries" and its thread
	Publish []string
	Ask     Ask
	Want    Outcome
}

// Ask is how a case asks.
type Ask string

// The ways to ask.
const (
	// Open acquires a View.
	Open Ask = "open"
	// Get reads a key of partition 0 by a free function; GetOfView by the View of the step "view".
	Get       Ask = "get"
	GetOfView Ask = "get of the View"
	// GetStrict is Get with RequireRunning; GetStale is Get with WithinLag(10).
	GetStrict Ask = "get with RequireRunning"
	GetStale  Ask = "get within a lag of 10"
	// GetPartition1 and GetPartition9 name the partition.
	GetPartition1 Ask = "get of partition 1"
	GetPartition9 Ask = "get of partition 9"
	// GetMisspelt names a store that is not there; GetMistyped one of another kind.
	GetMisspelt Ask = "get of a misspelt store"
	GetMistyped Ask = "get of a window store"
	// Next is the next step of the scan of the step "scan"; NextAfterClose is it after Close.
	Next           Ask = "next"
	NextAfterClose Ask = "next after Close"
	// Locate asks who owns a key of partition 1.
	Locate Ask = "locate"
	// OpenGlobal, GetGlobal and GetOfGlobalView are of the global store "countries".
	OpenGlobal      Ask = "open of a global store"
	GetGlobal       Ask = "get of a global store"
	GetOfGlobalView Ask = "get of the View of a global store"
)

// Outcome is what a case wants. A Kind of 0 is a value.
type Outcome struct {
	Kind query.Kind
	// Wraps is in the chain of causes: query.ErrStateStoreClosed or query.ErrEmptyStateStore; nil if neither is.
	Wraps error
	// Owner is the failure's.
	Owner string
	// Progress and LastKey are present.
	Progress, LastKey bool
	// Standby and Paused are flags of the reply that has the value.
	Standby, Paused bool
}

func (o Outcome) String() string {
	if o.Kind == 0 {
		return "a value" + flag(o.Standby, ", flagged standby, with its lag") + flag(o.Paused, ", flagged paused")
	}
	text := fmt.Sprintf("%s, %s", o.Kind, o.Kind.Retry())
	switch o.Wraps {
	case query.ErrStateStoreClosed:
		text += ", wraps closed"
	case query.ErrEmptyStateStore:
		text += ", wraps empty"
	}
	return text + flag(o.Owner != "", ", with the owner") + flag(o.Progress, ", with progress") + flag(o.LastKey, ", with the last key")
}

func flag(on bool, text string) string {
	if on {
		return text
	}
	return ""
}

func everywhere(id string) [3]Proof {
	return [3]Proof{{Test: "TestMatrix/" + id}, {Test: "TestMatrixEmbedded/" + id}, {Test: "TestMatrixTwoProcesses/" + id}}
}

func injectedOnly(id, reason string) [3]Proof {
	return [3]Proof{{Test: "TestMatrix/" + id}, {NA: reason}, {NA: reason}}
}

// Steps that many cases begin with.
var (
	running     = []string{"count", "node REBALANCING", "thread REBALANCING", "open 0", "serve 0", "thread RUNNING", "node RUNNING"}
	rebalancing = []string{"count", "node REBALANCING", "thread REBALANCING"}
	bootstraps  = []string{"node REBALANCING", "global thread REBALANCING", "global open", "global restore"}
	globally    = after(after(bootstraps, "global serve", "global thread RUNNING"), running...)
)

func after(steps []string, more ...string) []string {
	return append(append([]string(nil), steps...), more...)
}
