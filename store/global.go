package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
)

// GlobalTopic is the topic of a global store. What is transient is tried again inside; errors are ctx's, or a
// *broker.Error.
type GlobalTopic interface {
	// Lookup gives the topic's id and how many partitions it has now; no partitions means that there is no such topic.
	Lookup(ctx context.Context) (id string, partitions int32, err error)
	// Ends gives the range of each of the first partitions.
	Ends(ctx context.Context, partitions int32) (map[record.TopicPartition]TopicRange, error)
	// Open makes a reader that reads nothing yet. deliver gets its broker.Fetched and broker.FetchFailed, and must not block.
	Open(partitions int32, deliver func(broker.Event)) (GlobalReader, error)
}

// TopicRange is what a partition holds, and End, how far a reader gets for now: with committed records only, the last
// stable offset, else the high watermark.
type TopicRange struct {
	LogRange
	End int64
}

// GlobalReader reads partitions; kafka.Fetcher is one.
type GlobalReader interface {
	// Start reads a partition from the given offset on.
	Start(tp record.TopicPartition, at int64)
	// Credit gives back what a batch has cost.
	Credit(tp record.TopicPartition, bytes int)
	// Close ends it and waits for its goroutines.
	Close()
}

// GlobalWatcher is told what becomes of a global store, on any goroutine, one call at a time.
type GlobalWatcher interface {
	// Opening: an incarnation begins.
	Opening(epoch uint64)
	// Restoring: so far it has read what was in the topic when it began.
	Restoring(p lifecycle.Progress)
	// Serving: it has all of that; questions go to pid, and state may be read until Gone.
	Serving(state *TaskState, pid *actor.PID, epoch uint64)
	// DiskFull: its state waits for space on the disk and takes nothing in; nil: it does not any more.
	DiskFull(full error)
	// Gone: the incarnation ends, with err or, if it was stopped, nil. Its state is closed when Gone has returned.
	Gone(epoch uint64, err error)
}

// GlobalSpec is a global store of a node and what it is made of.
type GlobalSpec struct {
	Dir       *Directory
	ClusterID string
	// Store is what it keeps; its Changelog is the topic.
	Store StoreSpec
	Topic GlobalTopic
	// Take says whether the store takes a record: false leaves it out, an error ends the incarnation.
	Take func(tp record.TopicPartition, r *record.Raw) (bool, error)
	// Refresh is how often the topic is looked at, for new partitions and for another topic of the same name.
	Refresh time.Duration
	Watcher GlobalWatcher
}

// GlobalError is why an incarnation of a global store has ended. Causes: ErrTopicMissing, ErrTopicRecreated, a
// *ChangelogError (its *broker.Error says what the cluster answered; with broker.CodeOffsetOutOfRange the log no longer
// holds the position), what GlobalSpec.Take returned, *EngineError and the other errors of OpenTask. The next incarnation
// goes on from what is on disk, or reads the topic anew if that cannot be completed.
type GlobalError struct {
	Store, Topic string
	Epoch        uint64
	Cause        error
}

func (e *GlobalError) Error() string {
	return fmt.Sprintf("store: global store %q of topic %q: %v", e.Store, e.Topic, e.Cause)
}

// Unwrap gives the cause.
func (e *GlobalError) Unwrap() error { return e.Cause }

// Deliberate implements actors.Deliberate.
func (e *GlobalError) Deliberate() {}

var (
	// ErrTopicMissing: the topic of a global store does not exist.
	ErrTopicMissing = errors.New("the topic does not exist: create it")
	// ErrTopicRecreated: the topic of a global store was deleted and created again. The store is rebuilt from the new one.
	ErrTopicRecreated = errors.New("the topic was deleted and created again")
)

// globalActor is one incarnation of a global store. A goroutine of its own follows the topic, so that a batch does not
// hold up its mailbox; the store actor that answers questions is its child.
type globalActor struct {
	spec   *GlobalSpec
	epoch  uint64
	cancel context.CancelFunc
	ended  chan struct{}
	// child are the options of the store actor.
	child []actor.PropsOption
}

// NewGlobalProps makes the actor of a global store, whose restarts are its incarnations. child are the options of the
// store actors. It fails with a *GlobalError; supervision decides.
func NewGlobalProps(spec GlobalSpec, child []actor.PropsOption, opts ...actor.PropsOption) *actor.Props {
	epoch := uint64(0)
	return actor.PropsFromProducer(func() actor.Actor {
		epoch++
		return &globalActor{spec: &spec, epoch: epoch, child: child}
	}, opts...)
}

// serveGlobal asks the actor to spawn the store actor; pid has room for one.
type serveGlobal struct {
	epoch uint64
	state *TaskState
	pid   chan *actor.PID
}

// globalEnded says that the goroutine of an incarnation has ended.
type globalEnded struct {
	epoch uint64
	err   error
}

// Receive implements actor.Actor.
func (a *globalActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.start(ctx)
	case serveGlobal:
		if m.epoch == a.epoch {
			m.pid <- ctx.Spawn(NewActorProps(m.state, 0, a.child...))
		}
	case globalEnded:
		if m.epoch == a.epoch && m.err != nil {
			panic(m.err)
		}
	case *actor.Stopping, *actor.Restarting:
		if a.cancel != nil {
			a.cancel()
			<-a.ended
		}
	}
}

func (a *globalActor) start(ctx actor.Context) {
	root, self := ctx.ActorSystem().Root, ctx.Self()
	running, cancel := context.WithCancel(context.Background())
	a.cancel, a.ended = cancel, make(chan struct{})
	f := &follower{spec: a.spec, epoch: a.epoch, serve: func(ctx context.Context, state *TaskState) *actor.PID {
		ask := serveGlobal{a.epoch, state, make(chan *actor.PID, 1)}
		root.Send(self, ask)
		select {
		case pid := <-ask.pid:
			return pid
		case <-ctx.Done():
			return nil
		}
	}}
	go func() {
		defer close(a.ended)
		if err := f.follow(running); err != nil {
			root.Send(self, globalEnded{a.epoch, &GlobalError{a.spec.Store.Name, a.spec.Store.Changelog, a.epoch, err}})
		}
	}()
}
