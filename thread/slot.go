package thread

import (
	"slices"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Slot is what outlives a thread's incarnations: its member of the group, its producer, its connections, and the inbox
// that they deliver to. The node owns it and lends it to one incarnation at a time, so that a restart costs no rebalance
// and no new producer.
type Slot struct {
	Name     string
	Inbox    *broker.Inbox
	Group    Group
	Fetcher  Fetcher
	Producer Producer

	// What follows belongs to the incarnation that holds the slot.

	// assigned is what the group last gave this member; a new incarnation starts with it.
	assigned   []record.TopicPartition
	generation int32
	joined     bool
	// moving says that another generation is about to begin: this member has given partitions up, or is to get more.
	moving bool
	// revoking is a revocation that has not been answered yet.
	revoking *broker.Revoking
	// cause is why the incarnation before this one ended.
	cause error
	// token numbers requests over all incarnations, so that a late answer to a predecessor is told from one's own.
	token uint64
}

// NewSlot returns a slot with an empty inbox; the caller fills in the ports before the first incarnation starts.
func NewSlot(name string) *Slot { return &Slot{Name: name, Inbox: broker.NewInbox()} }

func (s *Slot) nextToken() uint64 {
	s.token++
	return s.token
}

// drop takes partitions out of what the slot owns.
func (s *Slot) drop(tps []record.TopicPartition) {
	s.assigned = slices.DeleteFunc(s.assigned, func(tp record.TopicPartition) bool { return slices.Contains(tps, tp) })
}
