package oracle

import "fmt"

// tally is the fold of a key's inputs.
type tally struct {
	Value
	timestamp int64
	any       bool
}

func (t *tally) add(amount, timestamp int64, id string, rich bool) {
	t.Sum += amount
	if rich {
		t.Count++
		t.Last = id
	}
	if !t.any || timestamp > t.timestamp {
		t.timestamp = timestamp
	}
	t.any = true
}

// claim is an input as one key sees it: an output of the key with the input's id takes one of its amounts, in order.
type claim struct {
	partition int32
	// number is the input's place in its partition.
	number    int
	timestamp int64
	amounts   []int64
	taken     int
}

// keyed is everything that the inputs do to one key.
type keyed struct {
	claims map[string]*claim
	// ids are in the order of the inputs.
	ids []string
	// fold is the end value; it depends on the order of the inputs only in Rich jobs, whose keys live in one partition.
	fold tally
}

func keys(j Job) map[string]*keyed {
	all := map[string]*keyed{}
	numbers := map[int32]int{}
	for _, in := range j.Inputs {
		numbers[in.Partition]++
		for _, a := range in.Adds {
			k := all[a.Key]
			if k == nil {
				k = &keyed{claims: map[string]*claim{}}
				all[a.Key] = k
			}
			cl := k.claims[in.ID]
			if cl == nil {
				cl = &claim{partition: in.Partition, number: numbers[in.Partition], timestamp: in.Timestamp}
				k.claims[in.ID] = cl
				k.ids = append(k.ids, in.ID)
			}
			cl.amounts = append(cl.amounts, a.Amount)
			k.fold.add(a.Amount, in.Timestamp, in.ID, j.Rich)
		}
	}
	return all
}

// outputs walks each key's outputs in the order of the log, adds up the inputs that they name, and compares.
func (c *checker) outputs(j Job) {
	all := keys(j)
	lines := map[string]*line{}
	for _, o := range j.Outputs {
		l := lines[o.Key]
		if l == nil {
			l = &line{checker: c, keyed: all[o.Key], rich: j.Rich, partition: o.Partition, latest: map[int32]int{}}
			lines[o.Key] = l
		}
		l.next(o)
	}
	for key, k := range all {
		for _, id := range k.ids {
			if cl := k.claims[id]; cl.taken < len(cl.amounts) {
				c.report(Lost, key, fmt.Sprintf("%d outputs of %s", len(cl.amounts), id), fmt.Sprint(cl.taken))
			}
		}
	}
}

// line is one key's outputs so far.
type line struct {
	*checker
	*keyed
	rich      bool
	partition int32
	sum       tally
	// latest is the number of the last input taken up from each source partition.
	latest map[int32]int
	// wrong: a sum or a timestamp was wrong already, so that the following ones are too.
	wrong bool
}

func (l *line) next(o Output) {
	if o.Partition != l.partition {
		l.report(Scatter, o.Key, fmt.Sprintf("every output in partition %d", l.partition), fmt.Sprintf("one in %d", o.Partition))
	}
	cl := l.claim(o.ID)
	switch {
	case cl == nil:
		l.report(Invented, o.Key, "no output of "+o.ID, fmt.Sprintf("%v at %d/%d", o.Value, o.Partition, o.Offset))
		return
	case cl.taken >= len(cl.amounts):
		l.report(Doubled, o.Key, fmt.Sprintf("%d outputs of %s", len(cl.amounts), o.ID), fmt.Sprintf("one more at %d/%d: %v", o.Partition, o.Offset, o.Value))
		return
	}
	if last := l.latest[cl.partition]; cl.number < last {
		l.report(Order, o.Key, fmt.Sprintf("%s before what came after it in input partition %d", o.ID, cl.partition), fmt.Sprintf("it at %d/%d", o.Partition, o.Offset))
	}
	l.latest[cl.partition] = max(l.latest[cl.partition], cl.number)
	l.sum.add(cl.amounts[cl.taken], cl.timestamp, o.ID, l.rich)
	cl.taken++
	l.compare(o)
}

func (l *line) claim(id string) *claim {
	if l.keyed == nil {
		return nil
	}
	return l.claims[id]
}

func (l *line) compare(o Output) {
	if l.wrong {
		return
	}
	if o.Value != l.sum.Value {
		l.wrong = true
		l.report(Sum, o.Key, l.sum.String(), fmt.Sprintf("%v for %s at %d/%d", o.Value, o.ID, o.Partition, o.Offset))
	} else if o.Timestamp != l.sum.timestamp {
		l.wrong = true
		l.report(Time, o.Key, fmt.Sprint(l.sum.timestamp), fmt.Sprintf("%d for %s at %d/%d", o.Timestamp, o.ID, o.Partition, o.Offset))
	}
}
