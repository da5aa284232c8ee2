package store

import "github.com/millrace-io/millrace/fault"

// noStore is a place that is about all stores of a task.
const noStore = -1

// breakable is a point at which a test may break a task's state. A panic of the test's is an error here, as one of the
// engine's would be.
func (t *TaskState) breakable(p fault.Point, store int) error {
	if t.dir.opts.Fault == nil {
		return nil
	}
	s := fault.Site{Point: p, Task: t.spec.ID}
	if store != noStore {
		s.Store = t.spec.Stores[store].Name
	}
	return caught(string(p), func() error { return t.dir.opts.Fault.At(s) })
}
