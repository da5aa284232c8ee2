package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/internal/plan"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
)

// states opens, restores, writes and closes the real stores of a process. One task's jobs run one after the other, as the
// node's do.
type states struct {
	*process
	keepers map[record.TaskID]*keeper
	reader  logReader
}

var _ thread.States = (*states)(nil)

// keeper is the jobs of one task.
type keeper struct {
	id    record.TaskID
	jobs  []*job
	state *store.TaskState
	write *store.WriteLease
	// said says that the engine's death was reported.
	said bool
}

// job is done when do says so; until then it is done again a little later.
type job struct {
	what    string
	began   bool
	restore bool
	do      func() (done bool)
}

func newStates(p *process) *states {
	return &states{process: p, keepers: map[record.TaskID]*keeper{}, reader: logReader{p}}
}

func (s *states) keeper(id record.TaskID) *keeper {
	k := s.keepers[id]
	if k == nil {
		k = &keeper{id: id}
		s.keepers[id] = k
	}
	return k
}

func (s *states) submit(k *keeper, j *job) {
	k.jobs = append(k.jobs, j)
	if len(k.jobs) == 1 {
		s.next(k, s.world.between(20*time.Microsecond, 2*time.Millisecond))
	}
}

func (s *states) next(k *keeper, after time.Duration) {
	s.world.after(after, func() { s.deliver(func() { s.work(k) }) })
}

// work carries out the first job.
func (s *states) work(k *keeper) {
	j := k.jobs[0]
	if j.began && j.restore && slices.ContainsFunc(k.jobs[1:], func(o *job) bool { return o.what == pointClose }) {
		k.jobs = k.jobs[1:] // closed while it was restored
		s.next(k, handOff)
		return
	}
	if !j.began && s.boundary(j.what, before) {
		return
	}
	if slow := s.node.disk.delay(); slow > 0 && !j.began {
		s.world.say("%s: the disk takes %v to %s %s", s.name, slow, j.what, k.id)
		s.next(k, slow)
		return
	}
	j.began = true
	done := j.do()
	if done && s.boundary(j.what, behind) {
		return
	}
	s.watch(k)
	if !done {
		s.next(k, s.world.between(5*time.Millisecond, 30*time.Millisecond))
		return
	}
	if k.jobs = k.jobs[1:]; len(k.jobs) > 0 {
		s.next(k, s.world.between(20*time.Microsecond, time.Millisecond))
	}
}

// busy says that a job of any task is not done.
func (s *states) busy() bool {
	for _, k := range s.keepers {
		if len(k.jobs) > 0 {
			return true
		}
	}
	return false
}

// watch reports an engine that has failed for good.
func (s *states) watch(k *keeper) {
	if k.state == nil || k.said || k.state.Err() == nil {
		return
	}
	k.said = true
	s.publish(k.id, func(name string) { s.router.Failed(name, k.id.Partition, k.state.Err()) })
	s.put(thread.StateFailed{Task: k.id, Epoch: s.epoch, Err: k.state.Err()})
}

func (s *states) publish(id record.TaskID, f func(name string)) {
	for _, st := range s.tasks.Stores(id) {
		f(st.Name)
	}
}

func (s *states) dirOf(id record.TaskID) string {
	return s.node.disk.fs.PathJoin(stateDir, appID, id.String())
}

// Open implements thread.States.
func (s *states) Open(id record.TaskID, epoch uint64) {
	k := s.keeper(id)
	s.publish(id, func(name string) { s.router.Opening(name, id.Partition, threadName, epoch) })
	s.submit(k, &job{what: pointOpen, restore: true, do: func() bool { return s.open(k, epoch) }})
}

func (s *states) open(k *keeper, epoch uint64) (done bool) {
	if k.state == nil {
		var err error
		var report store.OpenReport
		s.node.disk.during(s.dirOf(k.id), func() { k.state, report, err = s.dir.OpenTask(s.spec(k.id)) })
		if err != nil {
			k.state = nil
			s.publish(k.id, func(name string) { s.router.Failed(name, k.id.Partition, err) })
			s.put(thread.StateFailed{Task: k.id, Epoch: epoch, Err: err})
			return true
		}
		k.said = false
		s.world.tally.Opens++
		s.world.say("%s: state of %s: %s", s.name, k.id, report.Reason)
		if report.MovedAside() {
			s.world.tally.Aside++
		}
	}
	if k.write == nil {
		write, err := k.state.Lease(epoch)
		if err != nil {
			s.put(thread.StateFailed{Task: k.id, Epoch: epoch, Err: err})
			return true
		}
		k.write = write
	}
	return s.restore(k, epoch)
}

// errNotYet is a reader's that cannot go on now.
var errNotYet = errors.New("sim: not yet")

// restore goes on with a restore, as far as the log lets it.
func (s *states) restore(k *keeper, epoch uint64) (done bool) {
	for i, st := range s.tasks.Stores(k.id) {
		result, err := k.write.Restore(context.Background(), i, s.reader, func(p lifecycle.Progress) { s.router.Restoring(st.Name, k.id.Partition, p) })
		s.world.tally.Restored += int(result.Records)
		if errors.Is(err, errNotYet) {
			return false
		}
		if err != nil {
			s.router.Failed(st.Name, k.id.Partition, err)
			s.put(thread.StateFailed{Task: k.id, Epoch: epoch, Err: err})
			return true
		}
	}
	s.world.say("%s: %s is restored", s.name, k.id)
	s.put(thread.StateReady{Task: k.id, Epoch: epoch, State: plan.State{TaskState: k.state}})
	return true
}

// reached tells a restored state where its task starts.
func (s *states) reached(id record.TaskID, at record.Position) {
	if k := s.keepers[id]; k != nil && k.write != nil {
		if err := k.write.Reached(at); err != nil && !s.dead {
			s.world.say("%s: %s stays behind: %v", s.name, id, plain(err))
		}
	}
}

// Replay implements thread.States.
func (s *states) Replay(id record.TaskID, epoch uint64) {
	k := s.keeper(id)
	s.publish(id, func(name string) { s.router.Opening(name, id.Partition, threadName, epoch) })
	s.submit(k, &job{what: pointReplay, restore: true, do: func() bool { return k.state == nil || s.restore(k, epoch) }})
}

// Apply implements thread.States.
func (s *states) Apply(id record.TaskID, epoch uint64, u *task.Unit, ends map[record.TopicPartition]int64) {
	k := s.keeper(id)
	s.world.truth.applies(s.process, u)
	s.submit(k, &job{what: pointApply, do: func() bool {
		err := errors.New("sim: the state was closed")
		if k.state != nil && k.write != nil {
			err = k.write.Apply(s.tasks.Unit(u, ends))
		}
		s.put(thread.UnitApplied{Task: id, Epoch: epoch, Unit: u, Err: err})
		return true
	}})
}

// Close implements thread.States.
func (s *states) Close(id record.TaskID, epoch uint64) {
	k := s.keeper(id)
	s.submit(k, &job{what: pointClose, do: func() bool {
		var err error
		if k.state != nil {
			s.node.disk.during(s.dirOf(id), func() { err = k.state.Close() })
		}
		k.state, k.write = nil, nil
		s.put(thread.StateClosed{Task: id, Epoch: epoch, Err: err})
		return true
	}})
}

// flush writes what a task has in memory to disk, as the product does after a while.
func (s *states) flush(id record.TaskID) {
	k := s.keeper(id)
	s.submit(k, &job{what: pointFlush, do: func() bool {
		if k.state != nil && k.state.Err() == nil {
			var err error
			s.node.disk.during(s.dirOf(id), func() { err = k.state.Flush() })
			s.world.tally.Flushes++
			s.world.say("%s: %s is flushed: %t", s.name, id, err == nil)
		}
		return true
	}})
}

// bury closes what is open without a word.
func (s *states) bury() {
	for _, k := range s.keepers {
		if k.state != nil {
			k.state.Abandon()
		}
		k.state, k.write, k.jobs = nil, nil, nil
	}
}

func (s *states) spec(id record.TaskID) store.TaskSpec {
	return s.tasks.TaskSpec(id, "sim", func(changelog string) string { return "id of " + changelog })
}

// logReader reads changelogs for a restore, a piece at a time.
type logReader struct{ proc *process }

var _ store.ChangelogReader = logReader{}

// Read implements store.ChangelogReader. Where a real one waits, this one says that it cannot go on.
func (r logReader) Read(_ context.Context, tp record.TopicPartition, from, to int64, committedOnly bool, fn func(broker.Batch) error) error {
	l := r.proc.world.logs[tp]
	for range 1 + r.proc.world.rng.IntN(2) {
		if !l.leader.up {
			return errNotYet
		}
		b := l.read(from, 3+r.proc.world.rng.IntN(60), committedOnly)
		if b.Next == from {
			return errNotYet
		}
		if err := fn(b); err != nil {
			return err
		}
		if from = b.Next; from >= to {
			return nil
		}
	}
	return errNotYet
}

// Ends implements store.ChangelogReader.
func (r logReader) Ends(_ context.Context, tps []record.TopicPartition) (map[record.TopicPartition]store.LogRange, error) {
	all := map[record.TopicPartition]store.LogRange{}
	for _, tp := range tps {
		all[tp] = store.LogRange{HighWatermark: r.proc.world.logs[tp].end()}
	}
	return all, nil
}
