package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/lifecycle"
)

// ErrRestoreCancelled: the restore was cancelled, or its actor stopped, before it was done.
var ErrRestoreCancelled = errors.New("store: the restore was cancelled")

// StartRestore asks a restore actor to bring stores of a task to the end of their changelogs. Exactly one call of Done
// follows, whatever happens to the actor after it has taken the message.
type StartRestore struct {
	State *TaskState
	// Epoch is that of the incarnation's write lease; 0 if none was taken. A restore of an earlier incarnation ends with
	// ErrLeaseRevoked.
	Epoch uint64
	// Stores are indexes; nil means all.
	Stores []int
	// Progress, if not nil, is called on the restore's goroutine.
	Progress func(store int, p lifecycle.Progress)
	// Done is called on the restore's goroutine, or on the actor's if the restore never began. The results are in the
	// order of Stores and end with the one that failed. Errors are those of Restore, ErrRestoreCancelled and *PanicError.
	Done func([]RestoreResult, error)
}

// CancelRestore ends the restore of a state, if there is one.
type CancelRestore struct{ State *TaskState }

// restored says that a restore's goroutine is done.
type restored struct{ job *restoreJob }

type restoreJob struct {
	StartRestore
	ctx    context.Context
	cancel context.CancelCauseFunc
	began  bool
}

// restoreActor runs restores beside itself, a bounded number at a time, in the order in which they were asked for. All
// of it belongs to the actor's goroutine.
type restoreActor struct {
	reader  ChangelogReader
	limit   int
	running int
	jobs    []*restoreJob
}

// NewRestoreActorProps makes the actor that takes StartRestore and CancelRestore and runs at most limit restores at once.
func NewRestoreActorProps(reader ChangelogReader, limit int, opts ...actor.PropsOption) *actor.Props {
	return actor.PropsFromProducer(func() actor.Actor { return &restoreActor{reader: reader, limit: max(limit, 1)} }, opts...)
}

// Receive implements actor.Actor. A restart makes a new actor, so Restarting ends what runs just as Stopping does.
func (a *restoreActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *StartRestore:
		a.start(ctx, m)
	case *CancelRestore:
		a.end(func(j *restoreJob) bool { return j.State == m.State })
	case *restored:
		a.remove(m.job)
		a.running--
		a.schedule(ctx)
	case *actor.Stopping, *actor.Restarting:
		a.end(func(*restoreJob) bool { return true })
	}
}

func (a *restoreActor) start(ctx actor.Context, m *StartRestore) {
	j := &restoreJob{StartRestore: *m}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	if j.Stores == nil {
		for i := range j.State.spec.Stores {
			j.Stores = append(j.Stores, i)
		}
	}
	a.jobs = append(a.jobs, j)
	a.schedule(ctx)
}

// schedule begins what may begin.
func (a *restoreActor) schedule(ctx actor.Context) {
	root, self := ctx.ActorSystem().Root, ctx.Self()
	for _, j := range a.jobs {
		if a.running >= a.limit {
			return
		}
		if j.began {
			continue
		}
		j.began = true
		a.running++
		go func() {
			defer root.Send(self, &restored{j})
			j.run(a.reader)
		}()
	}
}

// end cancels jobs; those that have not begun are answered here.
func (a *restoreActor) end(match func(*restoreJob) bool) {
	kept := a.jobs[:0]
	for _, j := range a.jobs {
		if match(j) {
			j.cancel(ErrRestoreCancelled)
			if !j.began {
				j.done(nil, ErrRestoreCancelled)
				continue
			}
		}
		kept = append(kept, j)
	}
	clear(a.jobs[len(kept):])
	a.jobs = kept
}

func (a *restoreActor) remove(done *restoreJob) {
	for i, j := range a.jobs {
		if j == done {
			a.jobs = append(a.jobs[:i], a.jobs[i+1:]...)
			return
		}
	}
}

func (j *restoreJob) run(reader ChangelogReader) {
	defer j.cancel(nil)
	var results []RestoreResult
	err := caught("restore", func() error {
		for _, store := range j.Stores {
			result, err := j.State.restore(j.ctx, j.Epoch, store, reader, func(p lifecycle.Progress) {
				if j.Progress != nil {
					j.Progress(store, p)
				}
			})
			results = append(results, result)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && context.Cause(j.ctx) == ErrRestoreCancelled {
		err = fmt.Errorf("%w: %w", ErrRestoreCancelled, err)
	}
	j.done(results, err)
}

// done calls Done; a panic in it ends nothing but the call.
func (j *restoreJob) done(results []RestoreResult, err error) {
	if j.Done == nil {
		return
	}
	if failed := caught("restore's Done", func() error { j.Done(results, err); return nil }); failed != nil {
		j.State.dir.opts.Logger.Error("a restore could not be reported", "error", failed)
	}
}
