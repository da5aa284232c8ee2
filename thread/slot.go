package thread

import (
	"slices"
	"sync/atomic"
	"time"

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
	// Pulse is the sign of life of the incarnation that holds the slot.
	Pulse Pulse
	// TransactionalID is the producer's; empty at least once, and that is what tells the two guarantees apart.
	TransactionalID string
	// Member is who commits: the group and the instance id are the node's to fill in, the rest comes with each generation.
	Member broker.Membership

	// What follows belongs to the incarnation that holds the slot.

	// assigned is what the group last gave this member; a new incarnation starts with it.
	assigned []record.TopicPartition
	joined   bool
	// closing counts the States.Close calls that have not been answered, by task, those of former incarnations too: a
	// partition is released when its task is closed, whoever closed it.
	closing map[record.TaskID]int
	// rejoining says that a join of this member is pending, so the generation it knows may be over already.
	rejoining bool
	// live are the transactional ids of the group's members as of this generation. Nobody may fence them.
	live []string
	// moving says that another generation is about to begin: this member has given partitions up, or is to get more.
	moving bool
	// revoking is a revocation that has not been answered yet.
	revoking *broker.Revoking
	// aborting is the token of a Producer.Abort that has not been answered; 0 if there is none. Until it is, neither a
	// position that is read nor a commit would mean anything: what the abort finds under way it brings to its end.
	aborting uint64
	// committing is the token of a Group.Commit that has not been answered, a former incarnation's too; 0 if there is none.
	// The member sends it again until it is: positions that are read meanwhile may be older than what it will have
	// committed, and what is committed from them would be moved back by it.
	committing uint64
	// fenced counts how often another producer took the transactional id over, since the last commit or generation.
	fenced int
	// retake says that the producer was fenced, and takes its id back with the next generation.
	retake bool
	// transaction numbers the commits. It goes on from the time of the process's start, so that no number means two
	// transactions although a process that is started again has its transactional id again.
	transaction uint64
	// left are events that a failed incarnation had taken out of the inbox and not looked at. They are for the next one: an
	// answer among them that somebody waits for comes no second time.
	left []broker.Event
	// cause is why the incarnation before this one ended.
	cause error
	// quarantine is the record at which each task has failed last, until it is passed.
	quarantine map[record.TaskID]*Quarantine
	// blocked is how long loops stood still, in nanoseconds. They add to it, and anybody may read it.
	blocked atomic.Int64
	// token numbers requests over all incarnations, so that a late answer to a predecessor is told from one's own.
	token uint64
}

// NewSlot returns a slot with an empty inbox; the caller fills in the ports before the first incarnation starts.
func NewSlot(name string) *Slot {
	return &Slot{Name: name, Inbox: broker.NewInbox(), closing: map[record.TaskID]int{}, quarantine: map[record.TaskID]*Quarantine{}}
}

// Blocked is how long the slot's loops have stood still because a commit or the producer had to catch up, since the process
// started (blocked-time-ns-total in Kafka Streams). It may be called from any goroutine.
func (s *Slot) Blocked() time.Duration { return time.Duration(s.blocked.Load()) }

func (s *Slot) exactlyOnce() bool { return s.TransactionalID != "" }

// abort has the producer take back what is not committed. One Abort at a time is enough, since nothing is appended until
// it is answered; and a second one would hide the answer that says that the producer was fenced. A fenced producer holds
// nothing, and its next Abort takes the transactional id back: that is left to retake.
func (s *Slot) abort() {
	if s.aborting != 0 || s.retake {
		return
	}
	token := s.nextToken()
	s.Producer.Abort(token)
	s.aborting = token // now, as an Abort that panics is never answered
}

// poll takes what has arrived; what a failed incarnation has left comes first.
func (s *Slot) poll(dst []broker.Event) []broker.Event {
	dst = append(dst, s.left...)
	s.left = nil
	return s.Inbox.Poll(dst)
}

// leave keeps the events that were not looked at for the next incarnation.
func (s *Slot) leave(events []broker.Event) {
	for _, e := range events {
		if e != nil {
			s.left = append(s.left, e)
		}
	}
}

// begin gives the next commit its number.
func (s *Slot) begin(now time.Time) uint64 {
	s.transaction = max(s.transaction+1, uint64(now.UnixMilli()))
	return s.transaction
}

func (s *Slot) nextToken() uint64 {
	s.token++
	return s.token
}

// drop takes partitions out of what the slot owns.
func (s *Slot) drop(tps []record.TopicPartition) {
	s.assigned = slices.DeleteFunc(s.assigned, func(tp record.TopicPartition) bool { return slices.Contains(tps, tp) })
}

// mostStrangers bounds how often two processes that share an id take it from each other before one of them says so.
const mostStrangers = 4

// strangers is how many fences by others can be of a time in which this member was not in the group. Each of the others asks at
// most once for an id to be fenced, but for as long as it takes: while the id's coordinator is away, this member may come back, and
// what was asked before reaches it in its new life.
func (s *Slot) strangers() int { return min(max(len(s.live)-1, 1), mostStrangers) }
