package millrace

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/assign"
	"github.com/millrace-io/millrace/broker"
)

// ApplicationShutdownError is why a node ends after a failure, here or on another node, was answered with
// ShutdownApplication. Every node of the application ends with one.
type ApplicationShutdownError struct {
	// Node is the endpoint of the node that asked, or its process id if it has none; Thread is what has failed there, and
	// Reason how.
	Node, Thread, Reason string
	// Cause is the failure on the node that asked; nil on the others.
	Cause error
}

// Error names the node and the reason.
func (e *ApplicationShutdownError) Error() string {
	return "millrace: the application was shut down: " + e.Thread + " of node " + e.Node + " has failed: " + e.Reason
}

// Unwrap gives the cause, where it is known.
func (e *ApplicationShutdownError) Unwrap() error { return e.Cause }

// application is what this node knows of the end of the whole application.
//
// It travels through the group, as KIP-671 has it: the node that asks joins again with the request in its user data, the
// leader writes it into everybody's assignment, and who reads it there ends. A node that has heard of it says so in each
// join from then on, so that another leader knows too.
//
// The request is read by joins and written by whoever hears it first, on goroutines of the kafka room.
type application struct {
	request atomic.Pointer[assign.Shutdown]
	// heard is closed when an assignment has said it to this node.
	heard chan struct{}
	once  sync.Once
}

// spreadGrace is how long a node that ends with its application stays in the group after it has heard of that. The others
// get the same assignment in the same moment; one that asks for it later than this may find another generation.
const spreadGrace = time.Second

// askApplication asks every node to end. The asking itself needs no thread: slots keep their members.
func (n *Node) askApplication(t *tree, f Failure) error {
	n.application.request.CompareAndSwap(nil, &assign.Shutdown{Node: n.name(), Thread: f.Thread, Reason: f.Cause.Error()})
	if running := n.tree.Load(); running != nil {
		t = running // the failure may be a global store's, which has no slots
	}
	for _, s := range t.all() {
		s.group.Rejoin("the application shuts down")
	}
	return n.application.error(f.Cause)
}

// name is what other nodes know this one by.
func (n *Node) name() string {
	if n.opts.endpoint != "" {
		return n.opts.endpoint
	}
	return n.dir.ProcessID().String()
}

func (a *application) error(cause error) error {
	r := a.request.Load()
	return &ApplicationShutdownError{Node: r.Node, Thread: r.Thread, Reason: r.Reason, Cause: cause}
}

// hear looks whether an assignment says that the application ends. It sees what comes before the thread's loop does,
// which may be stuck, or gone.
func (t *tree) hear(e broker.Event) {
	a, ok := e.(broker.Assigned)
	if !ok {
		return
	}
	s, err := assign.DecodeShutdown(a.MemberID, a.UserData)
	if err != nil || s == nil { // one that cannot be read is told of by Watcher.Assignment
		return
	}
	app := &t.node.application
	app.request.CompareAndSwap(nil, s)
	app.once.Do(func() { close(app.heard) })
	t.fail(app.error(nil))
}

// awaitSpread waits until the others have heard of the application's end too, or ctx ends: then they hear of it from
// whoever has, if anybody has.
func (n *Node) awaitSpread(ctx context.Context) {
	if n.application.request.Load() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.opts.stopTimeout/2)
	defer cancel()
	select {
	case <-n.application.heard:
	case <-ctx.Done():
		n.opts.logger.Error("the group has not confirmed the end of the application; other nodes may go on", "err", context.Cause(ctx))
		return
	}
	grace := time.NewTimer(spreadGrace)
	defer grace.Stop()
	select {
	case <-grace.C:
	case <-ctx.Done():
	}
}
