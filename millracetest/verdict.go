package millracetest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/record"
)

// outputs compares every topic that the topology writes with what the reference has sent there.
func (c *checking) outputs(ref *reference) {
	written := map[string]bool{}
	for _, s := range ref.every.topology.SubTopologies {
		for _, sink := range s.Sinks {
			written[sink.Topic] = true
		}
	}
	letters := ref.every.topology.Handlers().DeadLetterTopic
	if letters != "" {
		written[letters] = true
	}
	for _, topic := range slices.Sorted(maps.Keys(written)) {
		for p := range ref.every.topics.counts[topic] {
			tp := record.TopicPartition{Topic: topic, Partition: p}
			j := &judging{checking: c, tp: tp, bare: topic == letters}
			j.judge(ref.logs[tp], ref.every.sent[tp], ref.least.sent[tp])
		}
	}
}

// judging is one partition that was written.
type judging struct {
	*checking
	tp record.TopicPartition
	// bare says that keys and values alone are compared: a dead letter's headers tell where and when it failed.
	bare bool
}

// keyed is everything that has one key: what each task could have sent, how much of it at least, and what is there.
type keyed struct {
	every map[record.TaskID][]string
	total int
	least int
	got   []string
}

func (j *judging) judge(got []record.Raw, every, least map[record.TaskID][]record.Raw) {
	keys := map[string]*keyed{}
	of := func(r *record.Raw) *keyed {
		name := shown(r.Key)
		if keys[name] == nil {
			keys[name] = &keyed{every: map[record.TaskID][]string{}}
		}
		return keys[name]
	}
	for id, records := range every {
		for i := range records {
			k := of(&records[i])
			k.every[id] = append(k.every[id], j.text(&records[i]))
			k.total++
		}
	}
	for _, records := range least {
		for i := range records {
			of(&records[i]).least++
		}
	}
	for i := range got {
		k := of(&got[i])
		k.got = append(k.got, j.text(&got[i]))
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		j.compare(fmt.Sprintf("%s, key %s", j.tp, name), keys[name])
	}
}

// text is what is compared of a record.
func (c *checking) text(r *record.Raw) string {
	s := shown(r.Value)
	if !c.untimed {
		s += fmt.Sprintf(" at %d", r.Timestamp)
	}
	for _, h := range r.Headers {
		s += fmt.Sprintf(" %s=%s", h.Key, shown(h.Value))
	}
	return s
}

func (j *judging) text(r *record.Raw) string {
	if j.bare {
		return shown(r.Value)
	}
	return j.checking.text(r)
}

func shown(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

// compare judges one key. If the reference says the same however often it commits, everything that it says must be there. Else
// a commit may leave out what a later one overrides: what is there is some of it, with the last.
func (j *judging) compare(where string, k *keyed) {
	all := k.total == k.least
	if j.atLeastOnce {
		if len(k.got) == 0 && k.total > 0 || all && len(k.got) < k.total {
			j.report(Lost, where, fmt.Sprintf("%d records or more", max(1, k.least)), fmt.Sprint(len(k.got)))
		}
		return
	}
	left, right := map[string]int{}, true
	for _, texts := range k.every {
		for _, text := range texts {
			left[text]++
		}
	}
	for _, text := range k.got {
		n, known := left[text]
		switch {
		case !known:
			j.report(Invented, where, nothing, text)
			right = false
		case n == 0:
			j.report(Doubled, where, "it once", text+" once more")
			right = false
		}
		left[text]--
	}
	for _, text := range slices.Sorted(maps.Keys(left)) {
		if all && left[text] > 0 {
			j.report(Lost, where, text, nothing)
			right = false
		}
	}
	if right {
		j.order(where, k, all)
	}
}

// order compares the order of what one task has sent; of several tasks nobody knows who was first. The last of each must be
// there.
func (j *judging) order(where string, k *keyed, all bool) {
	for _, texts := range k.every {
		last := texts[len(texts)-1]
		if !all && !slices.Contains(k.got, last) {
			j.report(Lost, where, last+", which is the last", nothing)
			return
		}
		if len(k.every) > 1 {
			continue
		}
		at := 0
		for _, text := range texts {
			if at < len(k.got) && k.got[at] == text {
				at++
			}
		}
		if at < len(k.got) {
			j.report(Order, where, fmt.Sprint(texts), fmt.Sprint(k.got))
		} else if k.got[len(k.got)-1] != last {
			j.report(Order, where, last+" as the last", k.got[len(k.got)-1])
		}
	}
}
