package store

import (
	"bytes"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/query/querypb"
)

func goroutine() string {
	b := make([]byte, 64)
	return string(bytes.Fields(b[:runtime.Stack(b, false)])[1])
}

// A store actor handles its messages on one goroutine, which ends with it, also if it comes to rest between them.
func TestStoreActorStaysOnItsGoroutine(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	s, _ := openTask(t, d, testSpec())
	var on []string
	watch := actor.WithReceiverMiddleware(func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, e *actor.MessageEnvelope) {
			on = append(on, goroutine())
			next(ctx, e)
		}
	})
	pid := system().Root.Spawn(NewActorProps(s, 0, append(actors.Hardened(func(any) any { return nil }), watch)...))
	for range 20 {
		if _, err := ask(t, pid, &querypb.Get{Key: []byte("k")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := system().Root.StopFuture(pid).Wait(); err != nil {
		t.Fatal(err)
	}
	for _, g := range on { // that it has ended is what the package's goleak says
		if g != on[0] {
			t.Fatalf("messages on goroutines %s", strings.Join(on, " "))
		}
	}
}

// A run that ends its goroutine is done again on another, and what comes after the end is done all the same.
func TestSteadyDispatcherSurvivesGoexitAndItsEnd(t *testing.T) {
	var ended atomic.Bool
	d := &steady{ended: ended.Load}
	ran := make(chan string)
	first := true
	d.Schedule(func() {
		if first {
			first = false
			runtime.Goexit()
		}
		ran <- goroutine()
	})
	again := <-ran
	d.Schedule(func() {
		ended.Store(true)
		ran <- goroutine()
	})
	if same := <-ran; same != again {
		t.Errorf("on goroutine %s, then on %s", again, same)
	}
	for range 100 {
		d.Schedule(func() { ran <- "" })
		<-ran
	}
}
