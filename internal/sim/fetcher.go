package main

import (
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/thread"
)

// fetcher reads partitions, one request of each at a time.
type fetcher struct {
	*process
	reading map[record.TopicPartition]*position
}

// position is where a partition is read. A seek makes another one.
type position struct {
	log   *partition
	next  int64
	tries int
}

var _ thread.Fetcher = (*fetcher)(nil)

func newFetcher(p *process) *fetcher {
	return &fetcher{process: p, reading: map[record.TopicPartition]*position{}}
}

// Start implements thread.Fetcher.
func (f *fetcher) Start(tp record.TopicPartition, at int64) {
	f.world.say("%s reads %s from %d", f.name, tp, at)
	pos := &position{log: f.world.logs[tp], next: at}
	f.reading[tp] = pos
	f.world.after(handOff, func() { f.deliver(func() { f.fetch(pos) }) })
}

// Stop implements thread.Fetcher.
func (f *fetcher) Stop(tps ...record.TopicPartition) {
	for _, tp := range tps {
		delete(f.reading, tp)
	}
}

// Credit implements thread.Fetcher. Nothing here is large enough to need it.
func (f *fetcher) Credit(record.TopicPartition, int) {}

func (f *fetcher) fetch(pos *position) {
	if f.reading[pos.log.tp] != pos {
		return
	}
	l := pos.log
	to := f.where(l, l.leader)
	again := func() {
		f.forget(l)
		pos.tries++
		f.world.after(f.backoff(pos.tries), func() { f.deliver(func() { f.fetch(pos) }) })
	}
	f.request("fetch", broker.OpFetch, to, func(answer func(func())) {
		if l.leader != to {
			answer(again)
			return
		}
		f.serve(pos, answer)
	}, func(int16) { again() })
}

// serve answers as soon as there is something behind the position.
func (f *fetcher) serve(pos *position, answer func(func())) {
	if pos.log.limit(f.exactlyOnce()) <= pos.next {
		pos.log.waiting = append(pos.log.waiting, func() {
			if !f.dead {
				f.serve(pos, answer)
			}
		})
		return
	}
	b := pos.log.read(pos.next, 1+f.world.rng.IntN(40), f.exactlyOnce())
	answer(func() {
		if f.reading[pos.log.tp] != pos {
			return
		}
		pos.next, pos.tries = b.Next, 0
		f.put(broker.Fetched{Batches: []broker.Batch{b}})
		f.world.after(time.Millisecond, func() { f.deliver(func() { f.fetch(pos) }) })
	})
}
