package millrace

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/topology"
)

// Opening implements store.GlobalWatcher.
func (s *globalStore) Opening(epoch uint64) {
	if epoch == 1 {
		s.became(lifecycle.ThreadCreated, epoch)
	}
	s.became(lifecycle.ThreadRebalancing, epoch)
	s.moveStore(lifecycle.StoreOpening, epoch, nil)
	s.globals.node.router.Opening(s.spec.Name, 0, s.thread(), epoch)
}

// Restoring implements store.GlobalWatcher.
func (s *globalStore) Restoring(p lifecycle.Progress) {
	n := s.globals.node
	s.moveStore(lifecycle.StoreRestoring, n.status.epochOf(s.thread()), nil)
	n.router.Restoring(s.spec.Name, 0, p)
}

// Serving implements store.GlobalWatcher: a thread is RUNNING when its store can be asked, as with stream threads.
func (s *globalStore) Serving(state *store.TaskState, pid *actor.PID, epoch uint64) {
	s.set(state)
	s.globals.node.router.Serving(s.spec.Name, 0, pid, epoch)
	s.moveStore(lifecycle.StoreActive, epoch, nil)
	s.became(lifecycle.ThreadRunning, epoch)
}

// DiskFull implements store.GlobalWatcher.
func (s *globalStore) DiskFull(full error) {
	s.globals.node.status.board.diskFull(s.path(), full)
}

// Gone implements store.GlobalWatcher. What becomes of a thread that has failed is for supervision to publish.
func (s *globalStore) Gone(epoch uint64, err error) {
	s.set(nil)
	if err != nil {
		s.globals.node.router.Failed(s.spec.Name, 0, err)
	} else {
		s.became(lifecycle.ThreadPendingShutdown, epoch)
		s.globals.node.router.Revoked(s.spec.Name, 0, "")
		s.became(lifecycle.ThreadNotRunning, epoch)
	}
	s.moveStore(lifecycle.StoreClosing, epoch, err)
	s.moveStore(lifecycle.StoreClosed, epoch, err)
}

func (s *globalStore) became(state lifecycle.Thread, epoch uint64) {
	s.globals.tree.watch.Became(lifecycle.ThreadStatus{Name: s.thread(), State: state, Epoch: epoch, Since: time.Now()})
}

func (s *globalStore) moveStore(to lifecycle.Store, epoch uint64, cause error) {
	s.globals.node.status.board.moveStore(s.path(), to, epoch, cause)
}

// path is where the store is in the node's tree.
func (s *globalStore) path() string {
	return s.globals.node.status.board.thread(s.thread()) + "/store-" + s.spec.Name
}

func (s *globalStore) set(state *store.TaskState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = state
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *globalStore) now() (state *store.TaskState, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serving, s.changed
}

// at says that the store is served and has reached the ends.
func (s *globalStore) at(ends map[record.TopicPartition]store.TopicRange) bool {
	state, _ := s.now()
	if state == nil {
		return false
	}
	position := state.Position()
	for tp, end := range ends {
		if position[tp] < end.End {
			return false
		}
	}
	return true
}

// bootstrapped waits until the store is served for the first time.
func (s *globalStore) bootstrapped(ctx context.Context) error {
	for {
		state, changed := s.now()
		if state != nil {
			return nil
		}
		select {
		case <-changed:
		case err := <-s.globals.tree.failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// globalPatience is how long a processor waits for a global store that is built anew. It is below the five minutes after
// which a thread counts as stuck; the heartbeats of the group go on meanwhile.
const globalPatience = time.Minute

// ErrGlobalStoreAway is why a processor fails that has read a global store which is being built anew, and which was not
// there again within a minute, or when the node was asked to stop.
var ErrGlobalStoreAway = errors.New("millrace: the global store is being built anew")

// await gives the state to read, another one than was found closed. A thread that has to wait stands still: there is no
// right result of a join without its table, and a failure would only come again until the table is there.
func (s *globalStore) await(not *store.TaskState) (*store.TaskState, error) {
	if state, _ := s.now(); state != nil && state != not {
		return state, nil
	}
	timer := time.NewTimer(globalPatience)
	defer timer.Stop()
	for {
		state, changed := s.now()
		if state != nil && state != not {
			return state, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, fmt.Errorf("%w: it was not there within %s", ErrGlobalStoreAway, globalPatience)
		case <-s.globals.stopping:
			return nil, fmt.Errorf("%w, and the node stops", ErrGlobalStoreAway)
		}
	}
}

// gone says that an incarnation's state cannot be read any more, and the next one's can.
func gone(err error) bool {
	e := (*store.EngineError)(nil)
	return errors.Is(err, query.ErrStateStoreClosed) || errors.As(err, &e) && e.Dead
}

// Get implements topology.GlobalState.
func (s *globalStore) Get(key []byte) (value []byte, timestamp int64, ok bool, err error) {
	var state *store.TaskState
	for {
		if state, err = s.await(state); err != nil {
			return nil, 0, false, err
		}
		if value, timestamp, ok, err = state.Get(0, key); !gone(err) {
			return value, timestamp, ok, err
		}
	}
}

// Scan implements topology.GlobalState. It begins again with the next incarnation only if nothing was read of this one: the
// entries of two would be of two moments.
func (s *globalStore) Scan(from, to []byte, reverse bool) iter.Seq2[topology.GlobalEntry, error] {
	return func(yield func(topology.GlobalEntry, error) bool) {
		var state *store.TaskState
		var err error
		for again := true; again; {
			again = false
			if state, err = s.await(state); err != nil {
				yield(topology.GlobalEntry{}, err)
				return
			}
			read := false
			for e, err := range state.Scan(0, from, to, reverse) {
				if again = !read && gone(err); again {
					break
				}
				read = true
				if !yield(topology.GlobalEntry(e), err) {
					return
				}
			}
		}
	}
}
