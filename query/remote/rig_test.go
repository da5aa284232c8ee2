package remote_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/remote"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// childMode makes the test binary a node that answers until it is killed ("node"), or a program with the library's own
// remoting that asks the node at the address that it is.
const childMode = "MILLRACE_TEST_CHILD"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(childMode); mode {
	case "":
	case "node":
		r := newRig("127.0.0.1:0")
		r.serve(1, answers)
		fmt.Println(r.Address())
		select {}
	default:
		os.Exit(askRaw(mode))
	}
	goleak.VerifyTestMain(m)
}

var counts = topology.NewKeyValueStore("counts", codec.String, codec.String)

// rig is a listening node with one store of two partitions, of which it serves number 0 and others have number 1.
type rig struct {
	*router.Router
	*remote.Listener
	system *actor.ActorSystem
}

func newRig(addr string, opts ...remote.Option) *rig {
	l, err := remote.Bind(addr, opts...)
	if err != nil {
		panic(err)
	}
	r := &rig{Listener: l, system: actors.NewSystem(slog.New(slog.DiscardHandler))}
	r.Router = router.New(r.system, "app", router.Options{Endpoint: l.Address()})
	r.Declare([]router.StoreInfo{{Name: "counts", Kind: "key-value", KeyCodec: codec.String.Name(), ValueCodec: codec.String.Name()}})
	http := httpapi.Server(httpapi.Handler(health{r.Router}, nil))
	if err := l.Serve(remote.Node{System: r.system, App: "app", Client: r.Router, HTTP: http}); err != nil {
		panic(err)
	}
	r.SetPartitions("counts", 2)
	r.Node(lifecycle.NodeRebalancing)
	r.Thread(lifecycle.ThreadStatus{Name: "thread-1", State: lifecycle.ThreadRunning, Epoch: 1})
	return r
}

// health makes an httpapi.Node of a router.
type health struct{ *router.Router }

func (health) State() lifecycle.Node             { return lifecycle.NodeRunning }
func (health) Threads() []lifecycle.ThreadStatus { return nil }

// serve makes the node RUNNING, with the partitions from first on served by an actor with the given behaviour.
func (r *rig) serve(n int32, receive actor.ReceiveFunc) {
	for p := range n {
		pid := r.system.Root.Spawn(actor.PropsFromFunc(receive))
		r.Opening("counts", p, "thread-1", 1)
		r.Serving("counts", p, pid, 1)
	}
	r.Node(lifecycle.NodeRunning)
}

// start is newRig for a test, which ends it.
func start(t testing.TB, n int32, receive actor.ReceiveFunc, opts ...remote.Option) *rig {
	r := newRig("127.0.0.1:0", opts...)
	t.Cleanup(func() { r.Close() })
	r.serve(n, receive)
	return r
}

// answers is a store actor that has every key, with itself as its value.
func answers(ctx actor.Context) {
	switch q := ctx.Message().(type) {
	case *querypb.Get:
		ctx.Respond(&querypb.Reply{Answer: &querypb.Reply_Value{Value: &querypb.Value{Present: true, Value: q.Key}}})
	case *querypb.Open:
		ctx.Respond(&querypb.Reply{Answer: &querypb.Reply_Lease{Lease: &querypb.Lease{}}})
	case *querypb.Range:
		ctx.Respond(&querypb.Reply{Answer: &querypb.Reply_Page{Page: &querypb.Page{Entries: []*querypb.Entry{{Key: []byte("k"), Value: []byte("v")}}}}})
	}
}

// silent takes questions and never answers.
func silent(actor.Context) {}

// dial makes a client of a node in every way there is.
func dial(t testing.TB, scheme string, addrs []string, opts ...remote.Option) *remote.Client {
	t.Helper()
	var list []string
	for _, a := range addrs {
		list = append(list, scheme+a)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := remote.Dial(ctx, list, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// schemes are the two ways to ask.
var schemes = []string{"", "http://"}

var _ query.Client = (*remote.Client)(nil)
