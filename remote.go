package millrace

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/remote"
)

// bind takes the node's address for other processes, if it is to have one, so that its port is known before anything names
// it to others.
func (n *Node) bind() error {
	if n.opts.remoteAddr == "" {
		return nil
	}
	l, err := remote.Bind(n.opts.remoteAddr, n.opts.remote...)
	if taken := syscall.Errno(0); errors.As(err, &taken) { // not what was asked for is wrong, but what the machine has
		return fmt.Errorf("millrace: WithRemote: %w: give it another address, or end what has this one", err)
	}
	if err != nil {
		return &OptionError{"WithRemote", err.Error()}
	}
	n.listener = l
	if n.opts.endpoint == "" {
		n.opts.endpoint = l.Address()
	}
	return nil
}

// serve begins to answer other processes. It is the last step of New: what they ask in CREATED is answered too.
func (n *Node) serve() error {
	if n.listener == nil {
		return nil
	}
	err := n.listener.Serve(remote.Node{System: n.system, App: n.app, Client: n.router, HTTP: n.Server()})
	if err != nil {
		n.listener.Close()
		return &OptionError{"WithActorSystem", err.Error() + ": give the node a system of its own, or leave WithRemote out"}
	}
	return nil
}

// unbind ends the connections of other processes and the metrics. It is the last step of Run and Shutdown: until then
// both tell the state of the node.
func (n *Node) unbind() {
	n.meters.end()
	if n.listener != nil {
		n.listener.Close()
	}
}

// RemoteAddress is the host:port that WithRemote listens on; empty without it.
func (n *Node) RemoteAddress() string {
	if n.listener == nil {
		return ""
	}
	return n.listener.Address()
}

// RemoteRefusals counts what was not let in at RemoteAddress, by reason; see remote.Refusals. It is nil without WithRemote.
func (n *Node) RemoteRefusals() map[string]int64 {
	if n.listener == nil {
		return nil
	}
	return n.listener.Refusals().Counts()
}

// StorePID is where questions about one partition of a store go (of a global store, partition 0 is all that the node has of
// it, and there is no other): any actor may send it the messages of package querypb
// and gets a *querypb.Reply, a value or a typed failure, in every state of the node and for names and partitions that
// do not exist too. With WithRemote it has the node's address and can be asked from other processes. One that asks with the
// actor library must itself listen, because the library answers by a connection of its own; package query/remote need not.
func (n *Node) StorePID(store string, partition int32) *actor.PID {
	pid := n.router.PID(store, partition)
	return &actor.PID{Address: n.system.Address(), Id: pid.Id}
}

// Server is an HTTP server for Handler, with bounds for clients that are slow or greedy.
func (n *Node) Server() *http.Server { return httpapi.Server(n.Handler()) }
