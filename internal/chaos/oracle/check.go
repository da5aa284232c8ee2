package oracle

import "fmt"

// Check returns everything that is wrong with a world. What follows from one mistake is reported once where that can be
// told: a lost record makes every later sum of its key wrong, and only the first of those is listed.
func Check(w World) []Violation {
	c := &checker{guarantee: w.Guarantee}
	for _, j := range w.Jobs {
		c.job = j.Name
		c.inputs(j)
		c.outputs(j)
		c.seen(j)
		c.stores(j)
	}
	c.job = "group"
	for _, o := range w.Offsets {
		if o.Committed != o.End {
			c.report(Behind, fmt.Sprintf("%s-%d", o.Topic, o.Partition), fmt.Sprint(o.End), fmt.Sprint(o.Committed))
		}
	}
	c.job = "producers"
	for _, p := range w.Producers {
		if p.Created > p.Slots {
			c.report(Producer, p.Node, fmt.Sprintf("at most %d producers for %d slots", p.Slots, p.Slots), fmt.Sprint(p.Created))
		}
	}
	return c.found
}

type checker struct {
	guarantee Guarantee
	job       string
	found     []Violation
}

// atLeastOnce is the one place that says what at_least_once may do: take an input up again, so that outputs repeat,
// sums are too high and orders mixed. Nothing may be lost or invented, stores still equal their changelogs, and offsets
// reach the ends.
var atLeastOnce = map[Rule]bool{Doubled: true, Order: true, Sum: true, Time: true, StoreOver: true}

func (c *checker) report(rule Rule, key, expected, found string) {
	if c.guarantee == AtLeastOnce && atLeastOnce[rule] {
		return
	}
	c.found = append(c.found, Violation{Rule: rule, Job: c.job, Key: key, Expected: expected, Found: found})
}

// inputs compares the log with the feeder's books, partition by partition, up to the first difference: what follows one
// is shifted.
func (c *checker) inputs(j Job) {
	fed, log := byPartition(j.Inputs), byPartition(j.Log)
	for p := range max(len(fed), len(log)) {
		c.partition(at(fed, p), at(log, p))
	}
}

func (c *checker) partition(fed, log []Input) {
	for i, f := range fed {
		switch {
		case i >= len(log):
			c.report(InputLost, f.ID, "in the log", "the end of the log")
			return
		case same(f, log[i]):
		case i > 0 && same(fed[i-1], log[i]):
			c.report(InputDoubled, log[i].ID, f.ID, "the same record again")
			return
		case i+1 < len(fed) && same(fed[i+1], log[i]):
			c.report(InputLost, f.ID, "in the log", log[i].ID+" in its place")
			return
		default:
			c.report(InputChanged, f.ID, fmt.Sprint(f), fmt.Sprint(log[i]))
			return
		}
	}
	if len(log) > len(fed) {
		c.report(InputDoubled, log[len(fed)].ID, "the end of the log", "one more record")
	}
}

func same(a, b Input) bool {
	if a.ID != b.ID || a.Timestamp != b.Timestamp || len(a.Adds) != len(b.Adds) {
		return false
	}
	for i := range a.Adds {
		if a.Adds[i] != b.Adds[i] {
			return false
		}
	}
	return true
}

func byPartition(inputs []Input) (all [][]Input) {
	for _, in := range inputs {
		for int(in.Partition) >= len(all) {
			all = append(all, nil)
		}
		all[in.Partition] = append(all[in.Partition], in)
	}
	return all
}

func at(all [][]Input, p int) []Input {
	if p >= len(all) {
		return nil
	}
	return all[p]
}

// seen compares two readings of the output topic. A live reader that is given a record whose transaction is aborted
// later, or that a broker's fail-over takes back, has been lied to.
func (c *checker) seen(j Job) {
	type place struct {
		partition int32
		offset    int64
	}
	final := make(map[place]Output, len(j.Outputs))
	for _, o := range j.Outputs {
		final[place{o.Partition, o.Offset}] = o
	}
	for _, o := range j.Seen {
		at := place{o.Partition, o.Offset}
		if now, ok := final[at]; !ok || now != o {
			c.report(SeenUndone, o.Key, fmt.Sprintf("%v at %d/%d, as it was seen", o.Value, o.Partition, o.Offset), fmt.Sprintf("%v", now.Value))
		}
		delete(final, at)
	}
	for _, o := range final {
		c.report(SeenMissed, o.Key, fmt.Sprintf("%v at %d/%d was seen", o.Value, o.Partition, o.Offset), "no reader that did")
	}
}
