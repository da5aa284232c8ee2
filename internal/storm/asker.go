package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// asker is one client: it asks one question after the other.
type asker struct {
	checker *checker
	way     way
	client  keeping
	end     func()
	random  *rand.Rand
	keys    [partitions][]string
	limit   time.Duration
	pulse   *pulse
}

// keeping keeps the last reply, because a typed read gives its value alone, and the last error that has no type, because it
// makes a failure of each.
type keeping struct {
	query.Client
	last    *querypb.Reply
	untyped error
}

// Ask implements query.Client.
func (k *keeping) Ask(ctx context.Context, q query.Question) (reply *querypb.Reply, err error) {
	k.last, err = k.Client.Ask(ctx, q)
	k.typed(err)
	return k.last, err
}

// Partitions implements query.Client.
func (k *keeping) Partitions(ctx context.Context, store string) (int32, error) {
	n, err := k.Client.Partitions(ctx, store)
	k.typed(err)
	return n, err
}

func (k *keeping) typed(err error) {
	if f := (*query.Failure)(nil); err != nil && !errors.As(err, &f) {
		k.untyped = err
	}
}

func newAsker(ctx context.Context, i int, nodes []*member, s settings, h *history, p *pulse) (*asker, error) {
	w := wayOf(i)
	client, end, err := w.dial(ctx, nodes)
	if err != nil {
		return nil, err
	}
	return &asker{checker: newChecker(fmt.Sprintf("client %d by %s", i, w), h), way: w, client: keeping{Client: client}, end: end,
		random: rand.New(rand.NewPCG(s.seed, 1000+uint64(i))), keys: keysOf(), limit: s.deadline, pulse: p}, nil
}

func (a *asker) run(ctx context.Context) {
	for ctx.Err() == nil {
		p := a.random.IntN(partitions)
		a.checker.take(a.ask(int32(p), a.keys[p][a.random.IntN(keysPerPart)]))
	}
}

func (a *asker) ask(p int32, key string) answer {
	out := answer{key: key, partition: p, position: none, began: time.Now(), limit: a.limit}
	ctx, cancel := context.WithDeadline(context.Background(), out.began.Add(a.limit))
	a.client.untyped = nil
	count, _, err := query.Get(ctx, &a.client, counts, key)
	cancel()
	ended := time.Now()
	out.took = ended.Sub(out.began)
	if out.took > a.limit+grace {
		out.stalled = a.pulse.stalled(out.began, ended)
	}
	f := (*query.Failure)(nil)
	switch {
	case a.client.untyped != nil:
		out.untyped = a.client.untyped
	case err == nil:
		out.count, out.partition, out.position = count, a.client.last.GetPartition(), position(a.client.last)
		if out.position == none && a.way != pages {
			out.position = 0 // the store has taken up nothing yet
		}
	case errors.As(err, &f):
		out.kind = f.Kind
	default:
		out.untyped = err
	}
	return out
}
