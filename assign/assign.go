package assign

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/record"
)

// Member is what one member said of itself.
type Member struct {
	ID, ProcessID, Endpoint string
	// Owned are the partitions that it holds now, from generation Generation.
	Owned      []record.TopicPartition
	Generation int32
	// Previous are the tasks whose state it has on disk; OffsetSums say how far that state has come, where it said so.
	Previous   []record.TaskID
	OffsetSums map[record.TaskID]int64
	// TransactionalID is the producer's; empty without exactly-once.
	TransactionalID string
	// Version is the newest user data that it reads; 0 stands for this build's.
	Version uint32
	// Shutdown is set if it asks the whole application to end.
	Shutdown *Shutdown
}

// Shutdown is a failure that was answered with the end of the whole application.
type Shutdown struct {
	// Node is the endpoint of the node that asks, or its process id; Thread is what has failed there, Reason how.
	Node, Thread, Reason string
}

// Input is everything that a plan depends on.
type Input struct {
	Members []Member
	// Sources are the source topics of each sub-topology.
	Sources map[int32][]string
	// Partitions are the counts of all source topics.
	Partitions map[string]int32
}

// Assignment is one member's part of a plan.
type Assignment struct {
	Partitions []record.TopicPartition
	Tasks      []record.TaskID
}

// Owner says who has a task and who will have it.
type Owner struct {
	Task record.TaskID
	// Member has the task when this plan is carried out; Endpoint is its node's. Intended is another member that gets it
	// in the next rebalance; empty if Member keeps it.
	Member, Endpoint, Intended string
}

// Plan is who gets what.
type Plan struct {
	Assignments map[string]*Assignment
	// Owners has every task, by partition and then sub-topology.
	Owners []Owner
	// TransactionalIDs are those of the live members, in order: nobody may fence them.
	TransactionalIDs []string
	// Version is the lowest of the members'.
	Version uint32
	// Shutdown is what a member asks for; nil if none does. Everybody keeps what it has then.
	Shutdown *Shutdown
}

// MissingPartitionsError is a source topic whose partition count is not known, so nothing can be assigned.
type MissingPartitionsError struct{ Topic string }

// Error names the topic.
func (e *MissingPartitionsError) Error() string {
	return fmt.Sprintf("assign: the partition count of topic %q is not known: does it exist?", e.Topic)
}

// planner is one run of Make.
type planner struct {
	in      Input
	tasks   []record.TaskID
	topics  map[record.TaskID][]record.TopicPartition
	holders map[record.TopicPartition]string // who has a partition now
	owner   map[record.TaskID]string         // who has a task now; the first holder if there are several
	target  map[record.TaskID]string
	load    map[string]int
	process map[string]int
	members []string // in order
	byID    map[string]*Member
	ceil    int
	spare   int // how many members may have ceil tasks rather than one less
}

// Make plans. Its only error is a *MissingPartitionsError; without members the plan is empty.
func Make(in Input) (*Plan, error) {
	p := &planner{in: in, topics: map[record.TaskID][]record.TopicPartition{}, holders: map[record.TopicPartition]string{}, owner: map[record.TaskID]string{}, target: map[record.TaskID]string{}, load: map[string]int{}, process: map[string]int{}, byID: map[string]*Member{}}
	if err := p.findTasks(); err != nil {
		return nil, err
	}
	for i := range in.Members {
		m := &in.Members[i]
		p.members = append(p.members, m.ID)
		p.byID[m.ID] = m
	}
	slices.Sort(p.members)
	if len(p.members) == 0 {
		return &Plan{Assignments: map[string]*Assignment{}}, nil
	}
	p.findOwners()
	if s := p.shutdown(); s != nil {
		return p.stay(s), nil
	}
	p.ceil = (len(p.tasks) + len(p.members) - 1) / len(p.members)
	p.spare = len(p.tasks) - (p.ceil-1)*len(p.members)
	p.keep()
	p.bringBack()
	p.fill()
	return p.plan(), nil
}

func (p *planner) findTasks() error {
	for _, sub := range slices.Sorted(maps.Keys(p.in.Sources)) {
		for _, topic := range p.in.Sources[sub] {
			n, ok := p.in.Partitions[topic]
			if !ok || n <= 0 {
				return &MissingPartitionsError{topic}
			}
			for i := range n {
				id := record.TaskID{SubTopology: sub, Partition: i}
				p.topics[id] = append(p.topics[id], record.TopicPartition{Topic: topic, Partition: i})
			}
		}
	}
	// By partition first, so that members get a mix of sub-topologies rather than all of one.
	p.tasks = slices.SortedFunc(maps.Keys(p.topics), func(a, b record.TaskID) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.SubTopology, b.SubTopology))
	})
	return nil
}

// findOwners believes the newest generation if two members claim a partition: the other one missed that it was thrown out.
func (p *planner) findOwners() {
	claimed := map[record.TopicPartition]int32{}
	for _, id := range p.members {
		m := p.byID[id]
		for _, tp := range m.Owned {
			if gen, taken := claimed[tp]; !taken || m.Generation > gen {
				claimed[tp], p.holders[tp] = m.Generation, id
			}
		}
	}
	for _, t := range p.tasks {
		for _, tp := range p.topics[t] {
			if id, ok := p.holders[tp]; ok {
				p.owner[t] = id
				break
			}
		}
	}
}

func (p *planner) give(task record.TaskID, id string) {
	p.target[task] = id
	p.load[id]++
	p.process[p.byID[id].ProcessID]++
	if p.load[id] == p.ceil {
		p.spare--
	}
}

// room says that a member may take one more task and the plan stays balanced.
func (p *planner) room(id string) bool {
	n := p.load[id]
	return n < p.ceil-1 || (n == p.ceil-1 && p.spare > 0)
}

// keep leaves tasks where they are, as far as balance allows.
func (p *planner) keep() {
	for _, t := range p.tasks {
		if id, ok := p.owner[t]; ok && p.room(id) {
			p.give(t, id)
		}
	}
}

// bringBack gives a task that nobody has to a member that has its state; to the one whose state is newest, if they said.
func (p *planner) bringBack() {
	type local struct {
		task   record.TaskID
		member string
		sum    int64
	}
	var all []local
	for _, id := range p.members {
		for _, t := range p.byID[id].Previous {
			if _, known := p.topics[t]; known && p.owner[t] == "" {
				all = append(all, local{t, id, p.byID[id].OffsetSums[t]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b local) int { return cmp.Compare(b.sum, a.sum) })
	for _, l := range all {
		if p.target[l.task] == "" && p.room(l.member) {
			p.give(l.task, l.member)
		}
	}
}

// fill gives the rest to the member, then the process, with the least.
func (p *planner) fill() {
	for _, t := range p.tasks {
		if p.target[t] != "" {
			continue
		}
		best := ""
		for _, id := range p.members {
			if p.room(id) && (best == "" || p.less(id, best)) {
				best = id
			}
		}
		p.give(t, best)
	}
}

func (p *planner) less(a, b string) bool {
	pa, pb := p.process[p.byID[a].ProcessID], p.process[p.byID[b].ProcessID]
	return cmp.Or(cmp.Compare(p.load[a], p.load[b]), cmp.Compare(pa, pb)) < 0
}

func (p *planner) plan() *Plan {
	out := p.empty()
	for _, t := range p.tasks {
		to := p.target[t]
		o := Owner{Task: t, Member: to, Endpoint: p.byID[to].Endpoint}
		if now := p.other(t, to); now != "" {
			o.Member, o.Endpoint, o.Intended = now, p.byID[now].Endpoint, to
		} else {
			a := out.Assignments[to]
			a.Tasks, a.Partitions = append(a.Tasks, t), append(a.Partitions, p.topics[t]...)
		}
		out.Owners = append(out.Owners, o)
	}
	return out
}

// empty is a plan that gives nobody anything.
func (p *planner) empty() *Plan {
	out := &Plan{Assignments: map[string]*Assignment{}, Version: Version}
	for _, id := range p.members {
		m := p.byID[id]
		out.Assignments[id] = &Assignment{}
		if m.TransactionalID != "" {
			out.TransactionalIDs = append(out.TransactionalIDs, m.TransactionalID)
		}
		if m.Version > 0 {
			out.Version = min(out.Version, m.Version)
		}
	}
	slices.Sort(out.TransactionalIDs)
	return out
}

// other is a member that has a partition of the task and is to give it up first. Usually a task has one holder; after a
// change of the topology its partitions can come from two.
func (p *planner) other(t record.TaskID, to string) string {
	for _, tp := range p.topics[t] {
		if id, ok := p.holders[tp]; ok && id != to {
			return id
		}
	}
	return ""
}
