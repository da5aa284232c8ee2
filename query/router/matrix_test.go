package router_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/matrix"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// TestMatrix is level 1 of package matrix: each row's lifecycle is published to a router, and the typed client asks it.
func TestMatrix(t *testing.T) {
	for _, row := range matrix.Rows {
		t.Run(row.ID, func(t *testing.T) {
			for _, c := range row.Cases {
				t.Run(c.Name, func(t *testing.T) {
					s := newScript(t)
					for _, step := range c.Publish {
						s.publish(step)
					}
					s.wants(c.Want, s.ask(c.Ask))
					s.noDeadLetters()
				})
			}
		})
	}
}

var (
	counts    = topology.NewKeyValueStore("counts", codec.String, codec.Int64)
	countries = topology.NewGlobalStore("countries", topology.NewTopic("countries", codec.String, codec.Int64))
)

// script runs the steps of a case.
type script struct {
	*rig
	view, global *query.View[string, int64]
	scan         *query.KeyValueIterator[string, int64]
	// reply is the last one that had a value.
	reply *querypb.Reply
}

func newScript(t *testing.T) *script {
	s := &script{rig: newRig(t, router.Options{Endpoint: "here:1"})}
	s.Thread(lifecycle.ThreadStatus{Name: "thread-1", State: lifecycle.ThreadCreated})
	s.Declare([]router.StoreInfo{{Name: "countries", Kind: "key-value", KeyCodec: "string", ValueCodec: codec.Int64.Name(), Global: true}})
	return s
}

// Ask implements query.Client, and keeps the reply.
func (s *script) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	r, err := s.Router.Ask(ctx, q)
	if err == nil {
		s.reply = r
	}
	return r, err
}

func parse[S lifecycle.State](t testing.TB, first, last S, name string) S {
	for s := first; s <= last; s++ {
		if s.String() == name {
			return s
		}
	}
	t.Fatalf("%q is not a state", name)
	return first
}

func (s *script) publish(step string) {
	s.t.Helper()
	words := append(strings.Fields(step), "", "", "")
	n, _ := strconv.Atoi(words[1])
	p := int32(n)
	switch words[0] {
	case "count":
		s.SetPartitions("counts", 2)
	case "node":
		s.Node(parse(s.t, lifecycle.NodeCreated, lifecycle.NodeError, words[1]))
	case "thread", "thread-2":
		name := map[string]string{"thread": "thread-1", "thread-2": "thread-2"}[words[0]]
		s.Thread(lifecycle.ThreadStatus{Name: name, State: parse(s.t, lifecycle.ThreadCreated, lifecycle.ThreadError, words[1]), Epoch: 1})
	case "open":
		s.Opening("counts", p, "thread-1", 1)
	case "restore":
		s.Restoring("counts", p, lifecycle.Progress{Restored: 1_220_000, Remaining: 780_000, Started: time.Now().Add(-5 * time.Second)})
	case "serve":
		s.Serving("counts", p, s.system.Root.Spawn(actor.PropsFromFunc(stored)), 1)
	case "fail":
		s.Failed("counts", p, errors.New("disk"))
	case "revoke":
		s.Revoked("counts", p, words[2])
	case "owner":
		s.Owners(map[string]map[int32]string{"counts": {p: words[2]}})
	case "standby":
		lag, _ := strconv.Atoi(words[2])
		s.Standby("counts", p, "thread-1", s.system.Root.Spawn(actor.PropsFromFunc(stored)), int64(lag))
	case "global":
		s.publishGlobal(words[1], words[2])
	case "pause":
		s.Pause(true)
	default:
		s.hold(step)
	}
}

// publishGlobal is a step of the global store.
func (s *script) publishGlobal(step, state string) {
	s.t.Helper()
	switch step {
	case "thread":
		s.Thread(lifecycle.ThreadStatus{Name: "global-countries", State: parse(s.t, lifecycle.ThreadCreated, lifecycle.ThreadError, state), Epoch: 1})
	case "open":
		s.Opening("countries", 0, "global-countries", 1)
	case "restore":
		s.Restoring("countries", 0, lifecycle.Progress{Restored: 1, Remaining: 2, Started: time.Now()})
	case "serve":
		s.Serving("countries", 0, s.system.Root.Spawn(actor.PropsFromFunc(stored)), 1)
	case "fail":
		s.Failed("countries", 0, errors.New("disk"))
	case "view":
		var err error
		if s.global, err = query.Open(s.t.Context(), s, countries); err != nil {
			s.t.Fatal(err)
		}
	default:
		s.t.Fatalf("%q is not a step", step)
	}
}

// hold begins a View or a scan.
func (s *script) hold(step string) {
	s.t.Helper()
	var err error
	switch step {
	case "view":
		s.view, err = query.Open(s.t.Context(), s, counts)
	case "scan":
		s.scan = query.Iterate(s.t.Context(), s, counts, query.Everything[string](), query.PageSize(2, 0))
		_, err = s.scan.Next()
	default:
		err = fmt.Errorf("%q is not a step", step)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// keyOf is a key that belongs to a partition.
func keyOf(partition int32) string {
	for i := 0; ; i++ {
		if k := fmt.Sprintf("k%d", i); record.Partition([]byte(k), 2) == partition {
			return k
		}
	}
}

func (s *script) ask(how matrix.Ask) (err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	get := func(h query.Handle[string, int64], opts ...query.Option) error {
		_, _, err := query.Get(ctx, s, h, keyOf(0), opts...)
		return err
	}
	switch how {
	case matrix.Open:
		_, err = query.Open(ctx, s, counts)
	case matrix.Get:
		err = get(counts)
	case matrix.GetOfView:
		_, _, err = s.view.Get(ctx, keyOf(0))
	case matrix.GetStrict:
		err = get(counts, query.RequireRunning())
	case matrix.GetStale:
		err = get(counts, query.WithinLag(10))
	case matrix.GetPartition1:
		err = get(counts, query.Partition(1))
	case matrix.GetPartition9:
		err = get(counts, query.Partition(9))
	case matrix.GetMisspelt:
		err = get(topology.NewKeyValueStore("count", codec.String, codec.Int64))
	case matrix.GetMistyped:
		err = get(windowed{counts})
	case matrix.Next:
		_, err = s.scan.Next()
	case matrix.NextAfterClose:
		s.scan.Close()
		_, err = s.scan.Next()
	case matrix.OpenGlobal:
		_, err = query.Open(ctx, s, countries)
	case matrix.GetGlobal:
		_, _, err = query.Get(ctx, s, countries, keyOf(1))
	case matrix.GetOfGlobalView:
		_, _, err = s.global.Get(ctx, keyOf(1))
	case matrix.Locate:
		_, err = query.Locate(ctx, s, counts, keyOf(1))
	default:
		s.t.Fatalf("%q is not a way to ask", how)
	}
	return err
}

// windowed takes the store for a window store.
type windowed struct{ query.Handle[string, int64] }

func (windowed) StoreKind() string { return "window" }

// wants compares what came with what the row says. The text of a failure names kind and store.
func (s *script) wants(want matrix.Outcome, err error) {
	s.t.Helper()
	if want.Kind == 0 {
		if err != nil {
			s.t.Fatalf("%v; want a value", err)
		}
		if s.reply != nil && (s.reply.Standby != want.Standby || s.reply.Paused != want.Paused || (want.Standby && s.reply.Lag == 0)) {
			s.t.Errorf("flags of %v, want %v", s.reply, want)
		}
		return
	}
	var f *query.Failure
	if !errors.As(err, &f) {
		s.t.Fatalf("%v; want %v", err, want)
	}
	got := matrix.Outcome{Kind: f.Kind, Owner: f.Owner, Progress: f.Progress != nil, LastKey: f.LastKey != nil}
	for _, e := range []error{query.ErrStateStoreClosed, query.ErrEmptyStateStore} {
		if errors.Is(f, e) {
			got.Wraps = e
		}
	}
	if got != want {
		s.t.Errorf("%v (%v); want %v", got, f, want)
	}
	if f.Retry != want.Kind.Retry() || !strings.Contains(f.Error(), want.Kind.String()) {
		s.t.Errorf("%v advises %v", f, f.Retry)
	}
	if want.Progress && f.Store == "counts" && !strings.Contains(f.Error(), `store "counts" partition 0 is being restored on this node: 61 % of 2,000,000 records, about 3 s`) {
		s.t.Errorf("a person cannot act on %q", f.Error())
	}
}

// stored is a store actor with five keys.
func stored(ctx actor.Context) {
	var reply querypb.Reply
	switch q := ctx.Message().(type) {
	case *querypb.Open:
		reply.Answer = &querypb.Reply_Lease{Lease: &querypb.Lease{}}
	case *querypb.Get:
		reply.Answer = &querypb.Reply_Value{Value: &querypb.Value{Present: true, Value: make([]byte, 8)}}
	case *querypb.Range:
		reply.Answer = &querypb.Reply_Page{Page: pageOf(q)}
	default:
		return
	}
	ctx.Respond(&reply)
}

func pageOf(q *querypb.Range) *querypb.Page {
	page := &querypb.Page{}
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		if q.Resume != nil && bytes.Compare([]byte(k), q.Resume) <= 0 {
			continue
		}
		if page.More = len(page.Entries) == int(q.LimitEntries); page.More {
			break
		}
		page.Entries = append(page.Entries, &querypb.Entry{Key: []byte(k), Value: make([]byte, 8)})
	}
	return page
}

// Every way to ask is used by a row, or the table has one that means nothing.
func TestMatrixUsesEveryWayToAsk(t *testing.T) {
	var used []matrix.Ask
	for _, r := range matrix.Rows {
		for _, c := range r.Cases {
			used = append(used, c.Ask)
		}
	}
	for _, a := range []matrix.Ask{matrix.Open, matrix.Get, matrix.GetOfView, matrix.GetStrict, matrix.GetStale, matrix.GetPartition1,
		matrix.GetPartition9, matrix.GetMisspelt, matrix.GetMistyped, matrix.Next, matrix.NextAfterClose, matrix.Locate,
		matrix.OpenGlobal, matrix.GetGlobal, matrix.GetOfGlobalView} {
		if !slices.Contains(used, a) {
			t.Errorf("no row asks by %q", a)
		}
	}
}
