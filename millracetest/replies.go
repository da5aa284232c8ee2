package millracetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// Reply is the answer to a question that was asked through a Member.
type Reply struct {
	// Time is when the answer came, Question the name of the message that asked: Get, Range.
	Time      time.Time
	Question  string
	Store     string
	Partition int32
	Epoch     uint64
	// Position is what the answer reflects at least.
	Position record.Position
	// Err is the failure, a *query.Failure; nil for a value.
	Err error
}

// keptReplies is how many a probe keeps; older ones are forgotten, but for their positions.
const keptReplies = 10_000

// Ask implements query.Client, and has the probe keep the answer.
func (m *Member) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	store := q.GetAbout().GetStore()
	before := m.probe.reached(store)
	reply, err := m.Node.Ask(ctx, q)
	name := string(proto.MessageName(q))
	r := Reply{Time: time.Now(), Question: name[strings.LastIndexByte(name, '.')+1:], Store: store, Partition: q.GetAbout().GetPartition(), Err: err}
	if err == nil {
		r.Partition, r.Epoch, r.Position = reply.GetPartition(), reply.GetEpoch(), record.Position{}
		for _, at := range reply.GetPosition() {
			r.Position[record.TopicPartition{Topic: at.GetTopic(), Partition: at.GetPartition()}] = at.GetNext()
		}
	}
	m.probe.answered(r, before)
	return reply, err
}

// Replies are the answers to questions that were asked through the member, or those about the stores named; of very many,
// the last ten thousand.
func (p *Probe) Replies(about ...string) (replies []Reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.replies {
		if len(about) == 0 || slices.Contains(about, r.Store) {
			replies = append(replies, r)
		}
	}
	return replies
}

// SawFailure says that a question about a store was told this failure: query.ErrStreamThreadRebalancing, for one.
func (p *Probe) SawFailure(store string, failure error) bool {
	for _, r := range p.Replies(store) {
		if errors.Is(r.Err, failure) {
			return true
		}
	}
	return false
}

// reached is up to where the answers about a store were that have come.
func (p *Probe) reached(store string) record.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.positions[store])
}

// answered keeps an answer. before is what was reached when its question was asked: an answer may overtake another, and an
// earlier position is wrong only for a question that was asked later.
func (p *Probe) answered(r Reply, before record.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.replies) == keptReplies {
		p.replies = p.replies[:copy(p.replies, p.replies[1:])]
	}
	p.replies = append(p.replies, r)
	if p.positions == nil {
		p.positions = map[string]record.Position{}
	}
	if p.positions[r.Store] == nil {
		p.positions[r.Store] = record.Position{}
	}
	for tp, at := range r.Position {
		if at < before[tp] {
			p.back = append(p.back, Violation{WentBack, fmt.Sprintf("%s, %s, %s", p.name, r.Store, tp), fmt.Sprint(before[tp], " or more"), fmt.Sprint(at)})
		}
		p.positions[r.Store][tp] = max(p.positions[r.Store][tp], at)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Probe) backwards() []Violation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.back
}
