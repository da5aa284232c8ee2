package main

import "time"

// event is something that happens at a time. Of two at one time the one that was put in first comes first.
type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// queue is a heap of events.
type queue struct {
	events []event
	seq    uint64
}

func (q *queue) put(at time.Duration, do func()) {
	q.seq++
	q.events = append(q.events, event{at, q.seq, do})
	for i := len(q.events) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.events[i].before(&q.events[up]) {
			return
		}
		q.events[i], q.events[up] = q.events[up], q.events[i]
		i = up
	}
}

func (q *queue) take() (e event, ok bool) {
	if len(q.events) == 0 {
		return e, false
	}
	last := len(q.events) - 1
	e = q.events[0]
	q.events[0] = q.events[last]
	q.events[last] = event{}
	q.events = q.events[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return e, true
		}
		if right := down + 1; right < last && q.events[right].before(&q.events[down]) {
			down = right
		}
		if !q.events[down].before(&q.events[i]) {
			return e, true
		}
		q.events[i], q.events[down] = q.events[down], q.events[i]
		i = down
	}
}
