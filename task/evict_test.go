package task_test

import (
	"fmt"
	"testing"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/task"
)

// small is a task's memory that holds some cells and some cold values of a round, but far from all.
const small, rounds = 4000, 60

func (a *asking) round(prefix string, want bool) {
	a.Helper()
	for i := range rounds {
		if present, err := a.ask(fmt.Sprint(prefix, i)); present != want || err != nil {
			a.Fatal(prefix, i, present, err)
		}
	}
	a.commit()
	if err := task.Audit(a.task); err != nil {
		a.Fatal(err)
	}
}

// Whoever deletes the rows that a Range gives deletes what was evicted of them too.
func TestRowsThatWereEvictedAreDeleted(t *testing.T) {
	a := newAsking(t, small)
	a.round("a", false)
	a.round("a", true)
	if task.Cold(a.task) == 0 {
		t.Fatal("nothing is cold")
	}
	a.script.punctuate = func(int64, int64) error {
		s := a.script.host.Store("s0")
		for row, err := range s.Range([]byte("a"), []byte("b"), false) {
			if err != nil {
				return err
			}
			if err := s.Set(row, nil, 2); err != nil {
				return err
			}
		}
		return nil
	}
	if err := a.task.Punctuate(now); err != nil {
		t.Fatal(err)
	}
	a.commit()
	a.round("b", false)
	a.round("a", false)
}

// A task that begins again has nothing left of what the state was: at least once, the changelog's tail may have changed it.
func TestNothingColdOutlivesARewind(t *testing.T) {
	a := newAsking(t, small)
	a.round("a", false)
	a.round("a", true)
	a.task.Rewind()
	for i := range rounds {
		a.state.Put(0, fmt.Sprint("a", i), nil, 3)
	}
	if err := a.task.Start(now, broker.Offsets{tp("in", 0): {At: a.next}}); err != nil {
		t.Fatal(err)
	}
	a.round("a", false)
}
