package task

import (
	"iter"

	"github.com/millrace-io/millrace/topology"
)

// global is a global store as one task reads it: its errors end the task even if a processor swallows them, as those of the
// task's own stores do.
type global struct {
	topology.GlobalState
	t *Task
}

// Global implements topology.Host.
func (h host) Global(name string) topology.GlobalState {
	if h.t.cfg.Global == nil {
		return nil
	}
	if g := h.t.cfg.Global(name); g != nil {
		return global{g, h.t}
	}
	return nil
}

// Get implements topology.GlobalState.
func (g global) Get(key []byte) (value []byte, timestamp int64, ok bool, err error) {
	value, timestamp, ok, err = g.GlobalState.Get(key)
	if err != nil {
		g.t.fault(err)
	}
	return value, timestamp, ok, err
}

// Scan implements topology.GlobalState.
func (g global) Scan(from, to []byte, reverse bool) iter.Seq2[topology.GlobalEntry, error] {
	return func(yield func(topology.GlobalEntry, error) bool) {
		for e, err := range g.GlobalState.Scan(from, to, reverse) {
			if err != nil {
				g.t.fault(err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
