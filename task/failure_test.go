package task_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/topology"
)

var errUser = errors.New("user")

// Every place where user code runs, and every way in which it fails.
func TestUserCodeFails(t *testing.T) {
	ways := map[string]struct {
		fail  func() error
		stack bool
		node  string
	}{
		"error": {fail: func() error { return errUser }},
		"panic": {fail: func() error { panic(errUser) }, stack: true},
		"node":  {fail: func() error { return &topology.ProcessorError{Node: "n", Cause: errUser} }, node: "n"},
		"sink":  {fail: func() error { return &topology.SinkError{Node: "s", Cause: errUser} }, node: "s"},
		"bytes": {fail: func() error { return &topology.DeserializationError{Source: "src", Cause: errUser} }, node: "src"},
	}
	for name, way := range ways {
		for _, place := range []string{"init", "process", "punctuate", "flush"} {
			t.Run(place+"/"+name, func(t *testing.T) {
				s := &script{}
				fail := way.fail
				k, err := failAt(t, s, place, fail)
				var e *task.ProcessError
				if !errors.As(err, &e) || !errors.Is(err, errUser) {
					t.Fatalf("%v", err)
				}
				want := task.ProcessError{Task: record.TaskID{SubTopology: 1, Partition: 2}, Node: way.node}
				if place == "process" {
					want.Source, want.Offset = tp("in", 0), 1
				}
				got := task.ProcessError{Task: e.Task, Source: e.Source, Offset: e.Offset, Node: e.Node}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if (len(e.Stack) > 0) != way.stack || way.stack && !strings.Contains(string(e.Stack), "failure_test.go") {
					t.Errorf("stack %q", e.Stack)
				}
				if place != "init" {
					refuses(t, k, err)
				}
			})
		}
	}
}

// failAt runs a task into a failure at one place.
func failAt(t *testing.T, s *script, place string, fail func() error) (*task.Task, error) {
	state, out := newPorts()
	if place == "init" {
		s.init = fail
		k := newTask(t, config(s, state, out))
		k.Restoring()
		err := k.Start(now, broker.Offsets{tp("in", 0): {}})
		if k.State() != lifecycle.TaskRestoring {
			t.Errorf("state %v", k.State())
		}
		return k, err
	}
	k := start(t, config(s, state, out))
	var err error
	switch place {
	case "process":
		s.process = func(_ string, r *record.Raw) error {
			if r.Offset == 1 {
				return fail()
			}
			return nil
		}
		k.Add(batch(tp("in", 0), 0, 5, 6, 7))
		_, err = k.Process(now, 10)
	case "punctuate":
		s.punctuate = func(int64, int64) error { return fail() }
		err = k.Punctuate(now)
	case "flush":
		s.flush = fail
		_, err = k.Prepare(now)
	}
	return k, err
}

// refuses says that a failed task does nothing until it is rewound.
func refuses(t *testing.T, k *task.Task, why error) {
	t.Helper()
	if _, err := k.Process(now, 1); err != why {
		t.Errorf("Process: %v", err)
	}
	if _, err := k.Prepare(now); err != why {
		t.Errorf("Prepare: %v", err)
	}
	if err := k.Punctuate(now); err != why {
		t.Errorf("Punctuate: %v", err)
	}
	at := k.Rewind()
	if at[tp("in", 0)].At != 0 {
		t.Errorf("rewound to %v", at)
	}
}

// used makes stores look as if they had rows: of one that never had any, the engine is not asked.
func used(s *tasktest.State) {
	for i := range s.Times {
		s.Times[i] = 0
	}
}

// A processor may ignore what its store or output returned. The task does not.
func TestSwallowedPortErrors(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	used(state)
	cases := map[string]func(h topology.Host){
		"get": func(h topology.Host) { _, _ = h.Store("s0").Cell([]byte("k")) },
		"scan": func(h topology.Host) {
			h.Store("s0").Range(nil, nil, false)(func(*topology.Cell, error) bool { return true })
		},
		"global get": func(h topology.Host) { _, _, _, _ = h.Global("g").Get([]byte("k")) },
		"global scan": func(h topology.Host) {
			h.Global("g").Scan(nil, nil, false)(func(topology.GlobalEntry, error) bool { return true })
		},
		"send":   func(h topology.Host) { _ = h.Output("out").Send(&record.Raw{Key: []byte("k")}, -1) },
		"output": func(h topology.Host) { h.Output("no such topic") },
	}
	for name, use := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := config(s, state, out)
			cfg.Global = brokenGlobal
			k := start(t, cfg)
			s.process = func(string, *record.Raw) error {
				use(s.host)
				return nil
			}
			state.Err, out.Err = io.ErrUnexpectedEOF, io.ErrUnexpectedEOF
			defer func() { state.Err, out.Err = nil, nil }()
			k.Add(batch(tp("in", 0), 0, 1, 2))
			n, err := k.Process(now, 10)
			var e *task.ProcessError
			if n != 0 || !errors.As(err, &e) || e.Offset != 0 || (name != "output" && !errors.Is(err, io.ErrUnexpectedEOF)) {
				t.Fatalf("%d %v", n, err)
			}
			refuses(t, k, err)

			k = start(t, cfg) // the same where there is no record
			s.punctuate = func(int64, int64) error {
				use(s.host)
				return nil
			}
			err = k.Punctuate(now)
			if s.punctuate = nil; !errors.As(err, &e) || e.Source.Topic != "" {
				t.Fatal(err)
			}
			refuses(t, k, err)
		})
	}
}

// brokenGlobal gives the global store "g", which always fails.
func brokenGlobal(name string) topology.GlobalState {
	if name != "g" {
		return nil
	}
	return failingGlobal{}
}

type failingGlobal struct{}

func (failingGlobal) Get([]byte) ([]byte, int64, bool, error) {
	return nil, 0, false, io.ErrUnexpectedEOF
}

func (failingGlobal) Scan([]byte, []byte, bool) iter.Seq2[topology.GlobalEntry, error] {
	return func(yield func(topology.GlobalEntry, error) bool) {
		yield(topology.GlobalEntry{}, io.ErrUnexpectedEOF)
	}
}

func TestChangelogAppendFails(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	k := start(t, config(s, state, out))
	within(t, k, s, func() { put(t, s, "s1", "k", "v", 1) })
	out.Err = &broker.Error{Op: broker.OpProduce, Class: broker.Record}
	_, err := k.Prepare(now)
	var b *broker.Error
	if !errors.As(err, &b) || b.Class != broker.Record {
		t.Fatal(err)
	}
	refuses(t, k, err)
}

func put(t testing.TB, s *script, store, key, value string, timestamp int64) {
	t.Helper()
	c, err := s.host.Store(store).Cell([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.host.Store(store).Set(c, []byte(value), timestamp); err != nil {
		t.Fatal(err)
	}
}

// A cell belongs to one store, and for as long as its processor runs.
func TestSetRefusesForeignCells(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	state.Put(0, "k", []byte("v"), 1)
	state.Put(0, "r", []byte("v"), 1)
	cfg := config(s, state, out)
	cfg.CacheBytes = 0
	k := start(t, cfg)
	var kept, row *topology.Cell
	refused := func(store string, c *topology.Cell) {
		t.Helper()
		if err := s.host.Store(store).Set(c, []byte("x"), 2); !errors.Is(err, task.ErrForeignCell) {
			t.Errorf("Set in %s of %v: %v", store, c, err)
		}
	}
	within(t, k, s, func() {
		kept, _ = s.host.Store("s0").Cell([]byte("k"))
		refused("s1", kept)
		for c := range s.host.Store("s0").Range([]byte("r"), nil, false) {
			row = c
			refused("s1", row)
		}
		refused("s0", &topology.Cell{Key: "made up"})
	})
	within(t, k, s, func() { refused("s0", kept) }) // it was evicted meanwhile
	if k.NeedsCommit() {
		t.Error("a refused Set left something")
	}
}

// The processors' Close fails: everything is closed all the same.
func TestCloseFails(t *testing.T) {
	s := &script{shut: func() error { panic("no") }}
	state, out := newPorts()
	k := start(t, config(s, state, out))
	at := k.Rewind()
	var p *task.Panic
	if err := k.Start(now, at); !errors.As(err, &p) || k.State() != lifecycle.TaskRestoring {
		t.Fatalf("%v in %v", err, k.State())
	}
	if err := k.Start(now, at); err != nil {
		t.Fatalf("the error is told once: %v", err)
	}
	if err := k.Close(); !errors.As(err, &p) || k.State() != lifecycle.TaskClosed {
		t.Fatalf("%v in %v", err, k.State())
	}
	if err := k.Close(); err != nil || s.made != 2 || s.closed != 2 {
		t.Fatalf("second Close: %v; %d chains made, %d closed", err, s.made, s.closed)
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	for want, change := range map[string]func(*task.Config){
		"Config.Chain":        func(c *task.Config) { c.Chain = nil },
		"Config.Producer":     func(c *task.Config) { c.Producer = nil },
		"Config.State":        func(c *task.Config) { c.State = nil },
		"Config.Sources":      func(c *task.Config) { c.Sources = nil },
		"in-0 is there twice": func(c *task.Config) { c.Sources = append(c.Sources, tp("in", 0)) },
		`"s0" is there twice`: func(c *task.Config) { c.Stores = append(c.Stores, c.Stores[0]) },
	} {
		cfg := config(s, state, out)
		change(&cfg)
		if _, err := task.New(cfg); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "1_2") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestStartNeedsEveryPosition(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	k := newTask(t, config(s, state, out))
	k.Restoring()
	for _, at := range []broker.Offsets{nil, {tp("in", 0): {At: broker.None}}} {
		if err := k.Start(now, at); err == nil || !strings.Contains(err.Error(), "in-0") || s.made > 0 {
			t.Errorf("%v: %v", at, err)
		}
	}
}

func TestOnlyARunningTaskWorks(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	k := newTask(t, config(s, state, out))
	check := func() {
		t.Helper()
		_, err := k.Process(now, 1)
		_, err2 := k.Prepare(now)
		for _, err := range []error{err, err2, k.Punctuate(now)} {
			if !errors.Is(err, task.ErrNotRunning) || !strings.Contains(err.Error(), k.State().String()) {
				t.Errorf("in %v: %v", k.State(), err)
			}
		}
		if ready, _ := k.Ready(now); ready || k.Add(batch(tp("in", 0), 0, 1)) {
			t.Errorf("%v takes records", k.State())
		}
		if _, ok := k.NextWallClock(); ok {
			t.Errorf("%v has a punctuation", k.State())
		}
	}
	check()
	k.Restoring()
	check()
	if err := k.Start(now, broker.Offsets{tp("in", 0): {}}); err != nil {
		t.Fatal(err)
	}
	within(t, k, s, func() { put(t, s, "s0", "k", "v", 1) })
	if err := k.Suspend(); err != nil {
		t.Fatal(err)
	}
	check()
	k.Restoring()
	if err := k.Start(now, broker.Offsets{tp("in", 0): {At: 4}}); err != nil || k.NeedsCommit() || s.made != 2 || s.closed != 1 {
		t.Fatalf("resumed: %v, needs commit %v, %d made, %d closed", err, k.NeedsCommit(), s.made, s.closed)
	}
	if !k.Add(batch(tp("in", 0), 4, 1)) {
		t.Error("a resumed task takes no records")
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestErrorTexts(t *testing.T) {
	e := &task.ProcessError{Task: record.TaskID{Partition: 3}, Source: tp("in", 1), Offset: 7, Cause: &task.Panic{Value: "boom"}}
	if got := e.Error(); got != "task 0_3: record at offset 7 of in-1: panic: boom; to go on without such records, answer Skip or DeadLetter in OnProcessingError" {
		t.Error(got)
	}
	e.Source = record.TopicPartition{}
	if got := fmt.Sprint(e); got != "task 0_3: panic: boom" {
		t.Error(got)
	}
}

var _ task.State = (*tasktest.State)(nil)
