package page

import (
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/topology"
)

// Node is what the page shows.
type Node interface {
	// Picture is the node at this moment. causes says whether the texts of causes may be told.
	Picture(causes bool) Picture
}

// Picture is a node at one moment.
type Picture struct {
	App   string
	Time  time.Time
	State lifecycle.Node
	// Cause is why the node has failed or is about to; empty otherwise.
	Cause string
	Tree  Place
	// Transitions are the last ones, the latest first.
	Transitions []Transition
	Graph       *topology.Graph
	// Description is the topology in words, as Topology.Describe has it.
	Description string
	// Partitions are the tasks of the application and the global stores; none before their number is known.
	Partitions []Partition
	// Stores are all that can be asked.
	Stores []Store
	// Measured says that lag and rates are known.
	Measured bool
}

// Place is an actor or a task, as millrace.Actor has it.
type Place struct {
	Name, Kind, State string
	Since             time.Time
	Epoch, Restarts   uint64
	Cause             string
	// Retry is when a replacement starts, if one is pending.
	Retry   time.Time
	Mailbox int
	// Flags are stuck, disk-full and quarantined.
	Flags    []string
	Children []Place
}

// Transition is one change of a place.
type Transition struct {
	Time           time.Time
	Path, Old, New string
	Epoch          uint64
	Flags          []string
	Cause          string
}

// Partition is a task, or a global store.
type Partition struct {
	// Task is its name, as 0_3; of a global store "global".
	Task string
	// SubTopology is the task's; -1 of a global store.
	SubTopology int32
	Stores      []string
	// Owner is the thread if Here, else the host:port of the node that has it; empty if that is not known.
	Owner string
	Here  bool
	// State is the task's, or the store's of a global one; only of what is here.
	State string
	Flags []string
	// Lag is in offsets of its sources and Rate in records per second; nil if that is not known.
	Lag  *int64
	Rate *float64
	// Restore is how far one is; nil if none is under way.
	Restore *httpapi.RestoreProgress
	// Quarantine is the record at which it keeps failing; nil if it does not.
	Quarantine *httpapi.Quarantined
}

// Store is a store that can be asked; Kind is key-value, window or session.
type Store struct{ Name, Kind string }
