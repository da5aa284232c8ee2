package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/remote"
	"github.com/millrace-io/millrace/record"
)

const (
	// askEvery is how long a caller waits between an answer and its next question.
	askEvery = 20 * time.Millisecond
	// askLimit is how long it waits for an answer.
	askLimit = 500 * time.Millisecond
	// remarkable is the shortest time without a value that is remembered.
	remarkable = 4 * askEvery
)

// caller asks one partition of one store, through a client that was told of one node and follows owners: the read that a program
// gets by default, which only a RUNNING owner answers.
//
// The mutex protects what follows it: the caller's goroutine writes, and the run reads while it goes on.
type caller struct {
	name string
	ask  func(context.Context) error

	mu        sync.Mutex
	last      time.Time // of the last value
	err       error     // since then, the last failure
	open      map[query.Kind]int
	gaps      []gap
	questions int
	kinds     map[query.Kind]int
	untyped   error
}

// gap is the time between two values that a caller got, which holds the time in which it was refused.
type gap struct {
	from, to time.Time
	caller   string
	kinds    map[query.Kind]int
}

func (g gap) length() time.Duration { return g.to.Sub(g.from) }

// String says who waited and what it was told.
func (g gap) String() string {
	said := "nothing"
	if len(g.kinds) > 0 {
		said = counted(g.kinds)
	}
	return fmt.Sprintf("%s, told %s", g.caller, said)
}

// counted lists how often each kind came.
func counted(kinds map[query.Kind]int) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		all = append(all, fmt.Sprintf("%s:%d", k, kinds[k]))
	}
	return strings.Join(all, ",")
}

// call starts a caller for each partition of each store through each node. end waits for them; their context must have ended.
func (r *run) call(ctx context.Context) (callers []*caller, end func(), err error) {
	var clients []*remote.Client
	var done sync.WaitGroup
	end = func() {
		done.Wait()
		for _, c := range clients {
			c.Close()
		}
	}
	for _, n := range r.nodes {
		dialling, cancel := context.WithTimeout(ctx, startLimit)
		client, err := remote.Dial(dialling, []string{n.remote})
		cancel()
		if err != nil {
			end()
			return nil, nil, fmt.Errorf("%s cannot be asked: %w", n.name(), err)
		}
		clients = append(clients, client)
		for p := range int32(partitions) {
			callers = append(callers, newCaller(n, client, counts, "word", wordCount, p), newCaller(n, client, sums, "key", partitions*keysPerPart, p))
		}
	}
	for _, c := range callers {
		done.Go(func() { c.run(ctx) })
	}
	return callers, end, nil
}

// newCaller is one for a partition, which is asked for all its keys in turn.
func newCaller[V any](n *node, client query.Client, h query.Handle[string, V], prefix string, most int, p int32) *caller {
	var keys []string
	for i := range most {
		if key := fmt.Sprintf("%s%d", prefix, i); record.Partition([]byte(key), partitions) == p {
			keys = append(keys, key)
		}
	}
	next := 0
	return &caller{name: fmt.Sprintf("%s-%d through %s", h.StoreName(), p, n.name()), kinds: map[query.Kind]int{}, ask: func(ctx context.Context) error {
		next = (next + 1) % len(keys)
		_, _, err := query.Get(ctx, client, h, keys[next]) // a key that was not written yet is an answer too
		return err
	}}
}

func (c *caller) run(ctx context.Context) {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, askLimit)
		err := c.ask(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		c.take(time.Now(), err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// take notes how a question ended.
func (c *caller) take(now time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.questions++
	f := (*query.Failure)(nil)
	switch {
	case err == nil:
		if !c.last.IsZero() && now.Sub(c.last) >= remarkable {
			c.gaps = append(c.gaps, gap{c.last, now, c.name, c.open})
		}
		c.last, c.err, c.open = now, nil, nil
		return
	case errors.As(err, &f):
		if c.open == nil {
			c.open = map[query.Kind]int{}
		}
		c.open[f.Kind]++
		c.kinds[f.Kind]++
	case c.untyped == nil:
		c.untyped = fmt.Errorf("%s got what is neither a value nor a typed failure: %w", c.name, err)
	}
	c.err = err
}

// lastValue is when the last value came, and how it has failed since.
func (c *caller) lastValue() (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return c.last, errors.New("no value came since")
	}
	return c.last, c.err
}

func (c *caller) all() []gap {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.gaps)
}
