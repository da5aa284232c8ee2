package plan

import (
	"runtime/debug"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// GlobalSpec is what the directory of a global store must hold.
func GlobalSpec(g *topology.GlobalSpec) store.StoreSpec {
	return store.StoreSpec{Name: g.Name, Kind: g.Kind, KeyCodec: g.KeyCodec, ValueCodec: g.ValueCodec, Changelog: g.Topic, InMemory: g.InMemory}
}

// GlobalRecords decides about the records of a global store's topic.
type GlobalRecords struct {
	Topology *topology.Topology
	Spec     *topology.GlobalSpec
	// Failed makes the error that names a record which the codecs cannot read; stack is where one has panicked, or nil.
	Failed func(source record.TopicPartition, offset int64, cause error, stack []byte) error
}

// Take decides about a record. One without a key is left out, and so is one that the codecs cannot read if the topology's
// handler lets it go; reason says why, and is empty for a record that is taken. letter is the failure for which the handler
// wants a dead letter. err is the failure that it does not let go.
func (g *GlobalRecords) Take(source record.TopicPartition, r *record.Raw) (reason string, letter, err error) {
	if r.Key == nil {
		return "null key", nil, nil
	}
	failure := g.check(source, r)
	if failure == nil {
		return "", nil, nil
	}
	switch g.answer(source, r, failure) {
	case topology.Skip:
		return "deserialization", nil, nil
	case topology.DeadLetter:
		return "deserialization", failure, nil
	}
	return "", nil, failure
}

// check reads a record with the store's codecs. A panic of one is as good as an error.
func (g *GlobalRecords) check(source record.TopicPartition, r *record.Raw) (err error) {
	defer func() {
		if v := recover(); v != nil {
			stack := debug.Stack()
			err = g.Failed(source, r.Offset, &task.Panic{Value: v, Stack: stack}, stack)
		}
	}()
	if cause := g.Spec.Check(r); cause != nil {
		return g.Failed(source, r.Offset, cause, nil)
	}
	return nil
}

// answer asks the topology's handler. One that panics has answered Fail.
func (g *GlobalRecords) answer(source record.TopicPartition, r *record.Raw, err error) (answer topology.Response) {
	defer func() {
		if recover() != nil {
			answer = topology.Fail
		}
	}()
	handlers := g.Topology.Handlers()
	return handlers.Answer(topology.ErrorContext{Stage: topology.Deserialization, Node: g.Spec.Name, Source: source, Input: r}, err)
}
