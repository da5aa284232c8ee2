package millrace

import (
	"context"
	"testing"

	"github.com/millrace-io/millrace/lifecycle"
)

// Nobody waits for a reader, and each is told what it did not get.
func TestSlowReaderIsToldWhatItMissed(t *testing.T) {
	b := newBoard("app")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := 0
	total := 0
	say := func(n int) {
		for range n {
			b.set("/app/thread-1", change{kind: KindThread, state: lifecycle.ThreadRebalancing.String()})
			total++
		}
	}
	say(1)
	seen := 0
	events := b.hub.read(ctx, 4, func(Event) bool { return true })
	say(1) // heard, although nobody reads yet
	for e := range events {
		if got == 0 {
			say(10) // four fit
		}
		if got == 4 {
			say(1)
		}
		got++
		if seen += e.Missed + 1; e.Missed > 0 {
			if got != 6 || e.Missed != 6 {
				t.Errorf("event %d says that %d were missed", got, e.Missed)
			}
			break
		}
	}
	if seen != total-1 {
		t.Errorf("%d of %d are accounted for", seen, total-1)
	}
	if len(b.hub.readers) != 0 {
		t.Error("the reader is still there")
	}
}

// What was published before a reader's context ended is its own.
func TestReaderHasWhatWasPublishedBeforeItsEnd(t *testing.T) {
	for range 20 { // of two channels that are ready, select takes either
		b := newBoard("app")
		ctx, cancel := context.WithCancel(t.Context())
		events := b.hub.read(ctx, 8, func(Event) bool { return true })
		for range 4 {
			b.set("/app/thread-1", change{kind: KindThread, state: lifecycle.ThreadRebalancing.String()})
		}
		cancel()
		got := 0
		for range events {
			got++
		}
		if got != 4 {
			t.Fatalf("%d of 4", got)
		}
	}
}

// A place takes moves of its table only, whoever is late, and counts its restarts over its closings.
func TestBoardKeepsToTheTables(t *testing.T) {
	b := newBoard("app")
	const path = "/app/thread-1/store-s-0_0"
	for _, step := range []struct {
		to    lifecycle.Store
		epoch uint64
		want  string
	}{
		{lifecycle.StoreActive, 1, ""}, // nothing is there yet
		{lifecycle.StoreOpening, 1, "OPENING"},
		{lifecycle.StoreRestoring, 1, "RESTORING"},
		{lifecycle.StoreActive, 1, "ACTIVE"},
		{lifecycle.StoreOpening, 1, "ACTIVE"},
		{lifecycle.StoreClosing, 1, "CLOSING"},
		{lifecycle.StoreActive, 1, "CLOSING"},
		{lifecycle.StoreClosed, 1, ""},
		{lifecycle.StoreClosing, 1, ""},
		{lifecycle.StoreOpening, 3, "OPENING"},
	} {
		b.moveStore(path, step.to, step.epoch, nil)
		state := ""
		if p := b.places[path]; p != nil {
			state = p.State
		}
		if state != step.want {
			t.Fatalf("after %s it is %q, not %q", step.to, state, step.want)
		}
	}
	if r := b.places[path].Restarts; r != 2 {
		t.Errorf("%d restarts", r)
	}
	b.forget("/app/thread-1")
	if len(b.places)+len(b.first) != 0 {
		t.Error(b.places, b.first)
	}
}
