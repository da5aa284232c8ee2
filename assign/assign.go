// Package assign decides who gets which task. Plan is a pure function of what the members said and of the partition
// counts; the same input gives the same plan on every leader.
//
// A plan is balanced to within one task per member, keeps a task where it is if balance allows, gives a process that has
// come back its own tasks, and is cooperative: a task that another live member still owns is withheld from the one that
// will get it until its owner has given it up and joined again.
package assign

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/record"
)

// Member is what one member said of itself.
type Member struct {
	ID, ProcessID, Endpoint string
	// Owned are the partitions that it holds now, from generation Generation.
	Owned      []record.TopicPartition
	Generation int32
	// Previous are the tasks whose state it has on disk.
	Previous []record.TaskID
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
	Owners      []Owner
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
	owner   map[record.TaskID]string
	target  map[record.TaskID]string
	load    map[string]int
	process map[string]int
	members []string // in order
	byID    map[string]*Member
	ceil    int
	spare   int // how many members may have ceil tasks rather than one less
}

// Make plans.
func Make(in Input) (*Plan, error) {
	p := &planner{in: in, owner: map[record.TaskID]string{}, target: map[record.TaskID]string{}, load: map[string]int{}, process: map[string]int{}, byID: map[string]*Member{}}
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
	p.ceil = (len(p.tasks) + len(p.members) - 1) / len(p.members)
	p.spare = len(p.tasks) - (p.ceil-1)*len(p.members)
	p.keep()
	p.bringBack()
	p.fill()
	return p.plan(), nil
}

func (p *planner) findTasks() error {
	for sub, topics := range p.in.Sources {
		var n int32
		for _, t := range topics {
			count, ok := p.in.Partitions[t]
			if !ok {
				return &MissingPartitionsError{t}
			}
			n = max(n, count)
		}
		for i := range n {
			p.tasks = append(p.tasks, record.TaskID{SubTopology: sub, Partition: i})
		}
	}
	// By partition first, so that members get a mix of sub-topologies rather than all of one.
	slices.SortFunc(p.tasks, func(a, b record.TaskID) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.SubTopology, b.SubTopology))
	})
	return nil
}

// findOwners believes the newest generation if two members claim a task.
func (p *planner) findOwners() {
	sub := map[string]int32{}
	for s, topics := range p.in.Sources {
		for _, t := range topics {
			sub[t] = s
		}
	}
	claimed := map[record.TaskID]int32{}
	for _, id := range p.members {
		m := p.byID[id]
		for _, tp := range m.Owned {
			s, ok := sub[tp.Topic]
			task := record.TaskID{SubTopology: s, Partition: tp.Partition}
			if gen, taken := claimed[task]; ok && (!taken || m.Generation > gen) {
				claimed[task], p.owner[task] = m.Generation, id
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

// bringBack gives a task that nobody has to a member that has its state.
func (p *planner) bringBack() {
	for _, id := range p.members {
		for _, t := range p.byID[id].Previous {
			if _, owned := p.owner[t]; !owned && p.target[t] == "" && p.room(id) && slices.Contains(p.tasks, t) {
				p.give(t, id)
			}
		}
	}
}

// fill gives the rest to the process, then the member, with the least.
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
	out := &Plan{Assignments: map[string]*Assignment{}}
	for _, id := range p.members {
		out.Assignments[id] = &Assignment{}
	}
	for _, t := range p.tasks {
		to := p.target[t]
		o := Owner{Task: t, Member: to, Endpoint: p.byID[to].Endpoint}
		if now, ok := p.owner[t]; ok && now != to {
			o.Member, o.Endpoint, o.Intended = now, p.byID[now].Endpoint, to
		} else {
			a := out.Assignments[to]
			a.Tasks = append(a.Tasks, t)
			for _, topic := range p.in.Sources[t.SubTopology] {
				if t.Partition < p.in.Partitions[topic] {
					a.Partitions = append(a.Partitions, record.TopicPartition{Topic: topic, Partition: t.Partition})
				}
			}
		}
		out.Owners = append(out.Owners, o)
	}
	return out
}
