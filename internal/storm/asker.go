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
	client  keeping
	random  *rand.Rand
	keys    [partitions][]string
	limit   time.Duration
	pulse   *pulse
}

// keeping keeps the last reply, because a typed read gives its value alone.
type keeping struct {
	query.Client
	last *querypb.Reply
}

// Ask implements query.Client.
func (k *keeping) Ask(ctx context.Context, q query.Question) (reply *querypb.Reply, err error) {
	k.last, err = k.Client.Ask(ctx, q)
	return k.last, err
}

// browsing is how many of so many askers use HTTP: one in four.
const browsing = 4

func newAsker(i int, members []*member, s settings, h *history, p *pulse, origin time.Time) *asker {
	clients, name := map[string]query.Client{}, fmt.Sprintf("client %d by messages", i)
	for _, m := range members {
		clients[m.Address] = messenger{m}
	}
	if i%browsing == browsing-1 {
		name = fmt.Sprintf("client %d by HTTP", i)
		for _, m := range members {
			clients[m.Address] = browser{m}
		}
	}
	return &asker{checker: newChecker(name, h, origin), client: keeping{Client: query.Nodes(clients, nil)},
		random: rand.New(rand.NewPCG(s.seed, 1000+uint64(i))), keys: keysOf(), limit: s.deadline, pulse: p}
}

func (a *asker) run(ctx context.Context, browses bool) {
	for ctx.Err() == nil {
		p := a.random.IntN(partitions)
		a.checker.take(a.ask(int32(p), a.keys[p][a.random.IntN(keysPerPart)], browses))
	}
}

func (a *asker) ask(p int32, key string, browses bool) answer {
	out := answer{key: key, partition: p, position: none, began: time.Now(), limit: a.limit}
	ctx, cancel := context.WithDeadline(context.Background(), out.began.Add(a.limit))
	count, _, err := query.Get(ctx, &a.client, counts, key)
	cancel()
	ended := time.Now()
	out.took = ended.Sub(out.began)
	if out.took > a.limit+grace {
		out.stalled = a.pulse.stalled(out.began, ended)
	}
	f := (*query.Failure)(nil)
	switch {
	case err == nil:
		out.count, out.partition, out.position = count, a.client.last.GetPartition(), position(a.client.last)
		if out.position == none && !browses {
			out.position = 0 // the store has taken up nothing yet
		}
	case errors.Is(err, errUntyped) || !errors.As(err, &f):
		out.untyped = errors.Join(err, errors.Unwrap(err))
	default:
		out.kind = f.Kind
	}
	return out
}
