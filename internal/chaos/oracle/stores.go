package oracle

import "fmt"

const absent = "nothing"

// stores compares each store with the fold of the inputs and with the fold of its changelog.
func (c *checker) stores(j Job) {
	shards := c.shards(j)
	held, logged := c.gather("store", shards), c.gather("changelog", j.Changelog)
	folds := keys(j)
	for key, k := range folds {
		c.fold(key, k.fold, held[key])
	}
	for key, h := range held {
		if folds[key] == nil {
			c.report(StoreFold, key, absent, h.show())
		}
		if l := logged[key]; l == nil || *l != *h {
			c.report(StoreLog, key, l.show()+", as the changelog says", h.show())
		}
	}
	for key, l := range logged {
		if held[key] == nil {
			c.report(StoreLog, key, l.show()+", as the changelog says", absent)
		}
	}
}

// shards gives one shard for each partition.
func (c *checker) shards(j Job) (all []Shard) {
	by := map[int32]Shard{}
	for _, s := range j.Stores {
		if other, twice := by[s.Partition]; twice {
			c.report(ServedTwice, fmt.Sprintf("partition %d", s.Partition), other.Node+" alone", s.Node+" too")
		}
		by[s.Partition] = s
	}
	for p := range j.Partitions {
		s, ok := by[p]
		if !ok {
			c.report(Unserved, fmt.Sprintf("partition %d", p), "a node that answers", "none")
			continue
		}
		all = append(all, s)
	}
	return all
}

// held is an entry and the partition that it was found in.
type held struct {
	Entry
	partition int32
}

func (h *held) show() string {
	if h == nil {
		return absent
	}
	return fmt.Sprintf("%v of time %d in partition %d", h.Value, h.Timestamp, h.partition)
}

func (c *checker) gather(what string, shards []Shard) map[string]*held {
	all := map[string]*held{}
	for _, s := range shards {
		for _, e := range s.Entries {
			h := &held{Entry: e, partition: s.Partition}
			if other := all[e.Key]; other != nil {
				c.report(Scatter, e.Key, "one entry in the "+what, other.show()+" and "+h.show())
			}
			all[e.Key] = h
		}
	}
	return all
}

// fold compares an entry with the fold of its inputs. The amounts that are fed are positive, so that less of them is less.
func (c *checker) fold(key string, want tally, found *held) {
	rule := StoreFold
	if found != nil && found.Value.Sum >= want.Sum && found.Value.Count >= want.Count {
		rule = StoreOver
	}
	if found == nil || found.Value != want.Value || found.Timestamp != want.timestamp {
		c.report(rule, key, fmt.Sprintf("%v of time %d", want.Value, want.timestamp), found.show())
	}
}
