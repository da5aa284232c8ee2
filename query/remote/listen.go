package remote

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	wire "github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/millrace-io/millrace/query"
)

// Node is who is asked.
type Node struct {
	// System has the gates of the application App.
	System *actor.ActorSystem
	App    string
	// Client answers what is sent to gates that do not exist (yet).
	Client query.Client
	// HTTP serves the connections that speak HTTP/1; nil closes them.
	HTTP *http.Server
}

// Listener is a node's address for other processes.
type Listener struct {
	settings settings
	address  string
	door     *door
	refusals Refusals
	bytes    atomic.Int64
	peers    atomic.Int64
	last     atomic.Uint64

	node    Node
	grpc    *grpc.Server
	outward *outward
	wg      sync.WaitGroup
	ending  chan struct{}
	once    sync.Once
}

// Bind takes the address, without answering yet: callers wait. It fails as Check does, and if the address cannot be had.
func Bind(addr string, opts ...Option) (*Listener, error) {
	if err := Check(addr, opts...); err != nil {
		return nil, err
	}
	socket, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("nothing can listen on %s: %w", addr, err)
	}
	l := &Listener{settings: gather(opts), address: socket.Addr().String(), ending: make(chan struct{})}
	if l.settings.advertised != "" {
		l.address = l.settings.advertised
	}
	l.door = newDoor(socket, l.settings.serverTLS(), &l.refusals)
	return l, nil
}

// Address is the host:port by which callers reach the node.
func (l *Listener) Address() string { return l.address }

// Refusals counts what was not let in.
func (l *Listener) Refusals() *Refusals { return &l.refusals }

// ErrHasAddress is for an actor system that another remoting has served: a system has one address for life. A later
// Listener at the same address may have it.
var ErrHasAddress = errors.New("remote: the actor system has an address already")

// noAddress is the address of an actor system without remoting.
const noAddress = "nonhost"

// Serve begins to answer, once. The actor system gets this address, so nobody else may use the system before it returns: the
// library keeps the address without a lock. PIDs that were made before stay valid inside the process, but not outside. Its error
// is ErrHasAddress.
func (l *Listener) Serve(n Node) error {
	if has := n.System.ProcessRegistry.Address; has != noAddress && has != l.address {
		return ErrHasAddress
	}
	l.node = n
	l.outward = newOutward(l)
	n.System.ProcessRegistry.RegisterAddressResolver(l.outward.resolve)
	n.System.ProcessRegistry.Address = l.address
	l.grpc = grpc.NewServer(
		grpc.StreamInterceptor(l.admitStream), grpc.UnaryInterceptor(refuseUnary),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxConcurrentStreams(16), grpc.MaxHeaderListSize(16<<10),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window), grpc.ConnectionTimeout(HelloTime), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: PingTime, Timeout: PingWait, MaxConnectionIdle: 10 * time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: PingTime / 4, PermitWithoutStream: true}))
	wire.RegisterRemotingServer(l.grpc, &remoting{l: l})
	l.wg.Go(l.door.run)
	l.wg.Go(func() { _ = l.grpc.Serve(l.door.actors) }) // ends with the door
	if n.HTTP == nil {
		n.HTTP = &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: HelloTime, ReadTimeout: HelloTime, WriteTimeout: HelloTime}
	}
	handler := n.HTTP.Handler
	n.HTTP.Handler = l.guard(handler)
	l.node.HTTP = n.HTTP
	l.wg.Go(func() { _ = n.HTTP.Serve(l.door.http) })
	return nil
}

// Close ends it: streams are cut off, and what they have asked is answered to nobody. Its error is always nil.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.ending)
		l.door.close()
		if l.grpc != nil {
			l.grpc.Stop()
			l.node.HTTP.Close()
			l.outward.close()
		}
		l.wg.Wait()
	})
	return nil
}

// bearer is what a caller with the token sends.
func (l *Listener) bearer(header string) bool {
	return l.settings.token == "" || subtle.ConstantTimeCompare([]byte(header), []byte("Bearer "+l.settings.token)) == 1
}

// guard asks HTTP callers for the token.
func (l *Listener) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.bearer(r.Header.Get("Authorization")) {
			next.ServeHTTP(w, r)
			return
		}
		l.refusals.unauthenticated.Add(1)
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintln(w, `{"type":"urn:millrace:failure:Unauthenticated","title":"Unauthenticated","status":401,"detail":"the node wants a bearer token: send it as Authorization: Bearer <token>","retry":"never"}`)
	})
}

// admitStream is the interceptor in front of every stream: who is it, and is there room.
func (l *Listener) admitStream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	md, _ := metadata.FromIncomingContext(s.Context())
	header := ""
	if values := md.Get("authorization"); len(values) == 1 {
		header = values[0]
	}
	if !l.bearer(header) {
		l.refusals.unauthenticated.Add(1)
		return status.Error(codes.Unauthenticated, "the node wants a bearer token")
	}
	defer l.peers.Add(-1)
	if l.peers.Add(1) > MaxPeers {
		l.refusals.peers.Add(1)
		return status.Error(codes.ResourceExhausted, "too many are asking already")
	}
	return next(srv, s)
}

// refuseUnary: the library's service has unary calls too, which list the actors of a process.
func refuseUnary(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
	return nil, status.Error(codes.Unimplemented, "only questions to stores are answered here")
}

// remoting implements the library's service.
type remoting struct {
	wire.UnimplementedRemotingServer
	l *Listener
}

var _ wire.RemotingServer = (*remoting)(nil)

// Receive implements wire.RemotingServer: one stream of questions.
func (r *remoting) Receive(stream wire.Remoting_ReceiveServer) error {
	return newPeer(r.l, stream).serve()
}

// Kept is how many bytes of questions and answers are kept for all peers now.
func (l *Listener) Kept() int64 { return l.bytes.Load() }
