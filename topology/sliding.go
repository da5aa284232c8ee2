package topology

import (
	"bytes"

	"github.com/millrace-io/millrace/record"
)

// slide is a window that a record may touch, as it was before the record came.
type slide[A any] struct {
	start int64
	// latest is the highest timestamp in it.
	latest int64
	value  A
	cell   *Cell
}

// slides is what one record finds; its memory is used again for the next.
type slides[A any] struct{ found []slide[A] }

// slide takes a record into sliding windows (KIP-450). With difference d, a record at t
//
//	is added to every window that holds t, starts t-d to t;
//	ends the window from t-d to t, or, before d, belongs to the one from 0 to d: the left one;
//	begins the window from t+1 on for the records that are there already: the right one;
//	is the first record of the window right behind the record before it, if that is within reach.
//
// Windows that are not there yet are made from neighbours. The window with the highest start below another one's holds
// all its records and none but those: every record begins a window right behind itself, so had it an earlier record more,
// a window would start in between. It holds them unless the records between are missing altogether, which its highest
// timestamp tells.
func (a *windowing[K, V, A]) slide(r record.Record[K, V]) error {
	if !usable(a.host, &r) {
		return nil
	}
	now, err := a.with(r.Timestamp)
	if err != nil {
		return err
	}
	t := r.Timestamp
	if a.span.closed(t+1+a.size, now) {
		a.count(0, 1)
		return nil
	}
	if err := a.findSlides(r.Key, t); err != nil {
		return err
	}
	taken, late, err := a.fillSlides(&r, now)
	if err != nil {
		return err
	}
	a.moved(now)
	a.count(taken, late)
	return nil
}

// findSlides reads the windows of a key around t, the oldest first, and leaves the key in the scratch buffer.
func (a *windowing[K, V, A]) findSlides(key K, t int64) (err error) {
	if a.key, err = a.keys.Encode(a.key[:0], key); err != nil {
		return storeError(a.name, err)
	}
	a.slides.found = a.slides.found[:0]
	r := oneKey(bytes.Clone(a.key), max(0, t-2*a.size), t+1, false)
	for c, err := range a.cells(&r) {
		if err != nil {
			return storeOnce(a.name, err)
		}
		_, start, _, _ := record.SplitWindowKey(bytesOf(c.Key))
		value, latest, _, err := a.read(c)
		if err != nil {
			return err
		}
		a.slides.found = append(a.slides.found, slide[A]{start, latest, value, c})
	}
	return nil
}

// fillSlides adds the record to the windows that are there and makes those that are missing.
func (a *windowing[K, V, A]) fillSlides(r *record.Record[K, V], now int64) (taken, late int, err error) {
	t, left := r.Timestamp, max(0, r.Timestamp-a.size)
	previous := int64(-1)       // the highest timestamp before t
	var below, around *slide[A] // of what the left and the right window can be made
	hasLeft, hasRight, hasBehind := false, false, false
	for i := range a.slides.found {
		w := &a.slides.found[i]
		if w.latest < t {
			previous = max(previous, w.latest)
		}
		switch {
		case w.start < left:
			below = w
		case w.start <= t:
			around = w
		}
		hasLeft = hasLeft || w.start == left
		hasRight = hasRight || w.start == t+1
	}
	put := func(start int64, f func() error) {
		if err == nil && a.span.closed(start+a.size, now) {
			late++
		} else if err == nil {
			taken++
			err = f()
		}
	}
	for i := range a.slides.found {
		w := &a.slides.found[i]
		hasBehind = hasBehind || w.start == previous+1
		if w.start >= left && w.start <= t {
			put(w.start, func() error { return a.join(r, w.cell, w.start, w.value, true) })
		}
	}
	if behind := previous + 1; previous >= 0 && !hasBehind && behind > left && behind <= t {
		put(behind, func() error { return a.make(r, behind, nil) })
	}
	if !hasLeft {
		if below != nil && below.latest < left {
			below = nil
		}
		put(left, func() error { return a.make(r, left, below) })
	}
	if !hasRight && around != nil && around.latest > t && !a.span.closed(t+1+a.size, now) && err == nil {
		err = a.copy(r, t+1, around)
	}
	return taken, late, err
}

// join adds the record to what a window holds.
func (a *windowing[K, V, A]) join(r *record.Record[K, V], c *Cell, start int64, old A, found bool) error {
	value, err := a.add(*r, old, found)
	if err != nil {
		return wrap(a.node, err)
	}
	return a.store(r, c, start, value, max(c.Timestamp, r.Timestamp))
}

// make makes a window of the record and of what a neighbour holds.
func (a *windowing[K, V, A]) make(r *record.Record[K, V], start int64, of *slide[A]) error {
	c, err := a.at(start)
	if err != nil {
		return err
	}
	var old A
	if of != nil {
		old = of.value
	}
	return a.join(r, c, start, old, of != nil)
}

// copy makes a window of what a neighbour held before the record came.
func (a *windowing[K, V, A]) copy(r *record.Record[K, V], start int64, of *slide[A]) error {
	c, err := a.at(start)
	if err != nil {
		return err
	}
	return a.store(r, c, start, of.value, of.latest)
}
