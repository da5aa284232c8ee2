package millrace

import (
	"testing"

	"github.com/millrace-io/millrace/record"
)

// Only positions of this node's own tasks count: a partition that has moved on may be at an older position elsewhere.
func TestAppliedAndOwnedAreWhatPurgeReads(t *testing.T) {
	var a applied
	var o owned
	tp := record.TopicPartition{Topic: "app-words-repartition", Partition: 1}
	if _, ok := a.get(tp); ok {
		t.Fatal("nothing was applied yet")
	}
	a.set(tp, 7)
	id := record.TaskID{SubTopology: 1, Partition: 1}
	o.set(id, true)
	if at, ok := a.get(tp); !ok || at != 7 || !o.has(id) {
		t.Fatal(at, ok, o.list())
	}
	o.set(id, false)
	if o.has(id) || len(o.list()) != 0 {
		t.Fatal(o.list())
	}
}
