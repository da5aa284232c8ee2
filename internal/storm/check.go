package main

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
)

// grace is how long after its deadline an answer may come.
const grace = 50 * time.Millisecond

// answer is what a client got for one question.
type answer struct {
	key       string
	partition int32
	// position is the next offset that the value does not reflect; none if the way that was asked does not tell.
	position int64
	count    int64
	// kind is 0 for a value; untyped is what came if it was neither value nor failure.
	kind    query.Kind
	untyped error
	began   time.Time
	took    time.Duration
	limit   time.Duration
	// stalled is how long the asking process itself stood still meanwhile.
	stalled time.Duration
}

const none = -1

// span is the grain of the figures over time.
const span = 100 * time.Millisecond

// bucket is the questions that began within one span.
type bucket struct{ queries, values, overloaded, exceeded int }

func (b *bucket) add(o bucket) {
	b.queries += o.queries
	b.values += o.values
	b.overloaded += o.overloaded
	b.exceeded += o.exceeded
}

// checker checks the answers of one client, in the order in which it got them. It belongs to the client's goroutine.
type checker struct {
	name    string
	history *history
	origin  time.Time
	// reached is the last position of each partition, and seen the last count of each key.
	reached [partitions]int64
	seen    map[string]int64
	tally
}

func newChecker(name string, h *history) *checker {
	return &checker{name: name, history: h, seen: map[string]int64{}, tally: tally{kinds: map[query.Kind]int{}}}
}

func (c *checker) take(a answer) {
	b := c.bucket(a.began)
	b.queries++
	c.queries++
	if over := a.took - a.limit - grace; over > 0 && over > a.stalled {
		c.late++
		c.note("late: %s took %s of %s (this process stood still for %s)", a.key, a.took, a.limit, a.stalled)
	}
	switch {
	case a.untyped != nil:
		c.untyped++
		c.note("untyped: %s: %v", a.key, a.untyped)
	case a.kind != 0 && a.kind.Retry() == query.Never:
		c.lies++
		c.note("lie: %s of %s: there is nothing wrong with the question, and the answer is %s", a.key, c.name, a.kind)
		c.kinds[a.kind]++
	case a.kind != 0:
		c.kinds[a.kind]++
		switch a.kind {
		case query.Overloaded:
			b.overloaded++
		case query.DeadlineExceeded:
			b.exceeded++
		}
	default:
		b.values++
		c.values++
		if a.partition >= 0 && a.partition < partitions {
			c.served[a.partition] = a.began.Sub(c.origin)
		}
		if lie := c.lie(a); lie != "" {
			c.lies++
			c.note("lie: %s of %s, partition %d at %d: %s", a.key, c.name, a.partition, a.position, lie)
		}
	}
}

// lie is what is wrong with a value, or nothing.
func (c *checker) lie(a answer) string {
	if home := record.Partition([]byte(a.key), partitions); a.partition != home {
		return fmt.Sprintf("the key belongs to partition %d", home)
	}
	if a.position == none {
		return c.bounds(a)
	}
	before := c.reached[a.partition]
	want, ok := c.history.at(a.partition, a.key, a.position)
	switch {
	case !ok:
		return fmt.Sprintf("the log ends at %d", c.history.end(a.partition))
	case a.position < before:
		return fmt.Sprintf("the position went back from %d", before)
	case a.count != want:
		return fmt.Sprintf("the count is %d, and %d at that position", a.count, want)
	}
	c.reached[a.partition] = a.position
	return ""
}

// bounds checks a count without a position.
func (c *checker) bounds(a answer) string {
	before, most := c.seen[a.key], c.history.written(a.partition, a.key)
	c.seen[a.key] = a.count
	switch {
	case a.count < before:
		return fmt.Sprintf("the count went back from %d to %d", before, a.count)
	case a.count > most:
		return fmt.Sprintf("the count is %d, and %d were written", a.count, most)
	}
	return ""
}

func (c *checker) bucket(at time.Time) *bucket {
	i := max(0, int(at.Sub(c.origin)/span))
	for len(c.buckets) <= i {
		c.buckets = append(c.buckets, bucket{})
	}
	return &c.buckets[i]
}
