package remote

import (
	"context"
	"errors"
	"io"
	"time"

	wire "github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// bearerToken sends the token with each stream.
type bearerToken string

var _ credentials.PerRPCCredentials = bearerToken("")

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearerToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. WithToken says what it means to do without.
func (bearerToken) RequireTransportSecurity() bool { return false }

// channel prepares a connection; it reaches nobody yet. cause finds why a handshake has failed behind gRPC's error.
func (s settings) channel(address string) (channel *grpc.ClientConn, cause func(error) error, err error) {
	secure, cause := insecure.NewCredentials(), func(err error) error { return err }
	if c := s.clientTLS(); c != nil {
		p := newProving(c)
		secure, cause = p, p.cause
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(secure), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxAnswer), grpc.MaxCallSendMsgSize(MaxAnswer)),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: PingTime, Timeout: PingWait}),
	}
	if s.token != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(bearerToken(s.token)))
	}
	channel, err = grpc.NewClient("passthrough:///"+address, opts...)
	return channel, cause, err
}

// stream is one connection to another process's remoting.
type stream struct {
	wire.Remoting_ReceiveClient
	channel *grpc.ClientConn
	cancel  context.CancelFunc
	// app is how the other process has introduced itself.
	app string
}

func (s *stream) close() {
	s.cancel()
	s.channel.Close()
}

var errStranger = errors.New("the other process does not speak the actors' protocol")

// open connects and introduces this process, in ConnectTime at most, or until ctx ends.
func (s settings) open(ctx context.Context, address string, hello *wire.ConnectRequest) (*stream, error) {
	channel, cause, err := s.channel(address)
	if err != nil {
		return nil, err
	}
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	out := &stream{channel: channel, cancel: cancel}
	late := time.AfterFunc(ConnectTime, cancel)
	stop := context.AfterFunc(ctx, cancel)
	if err = out.introduce(living, hello); err == nil && (!late.Stop() || !stop()) {
		err = context.DeadlineExceeded
	}
	if err != nil {
		late.Stop()
		stop()
		out.close()
		return nil, cause(err)
	}
	return out, nil
}

func (s *stream) introduce(ctx context.Context, hello *wire.ConnectRequest) (err error) {
	if s.Remoting_ReceiveClient, err = wire.NewRemotingClient(s.channel).Receive(ctx); err != nil {
		return err
	}
	err = s.Send(&wire.RemoteMessage{MessageType: &wire.RemoteMessage_ConnectRequest{ConnectRequest: hello}})
	if err != nil && !errors.Is(err, io.EOF) { // after an EOF, Recv says what it was
		return err
	}
	m, err := s.Recv()
	if err != nil {
		return err
	}
	answer, ok := m.MessageType.(*wire.RemoteMessage_ConnectResponse)
	if !ok || answer.ConnectResponse.GetBlocked() {
		return errStranger
	}
	s.app = answer.ConnectResponse.GetMemberId()
	return nil
}

// connectBack opens the way for the answers of a peer that listens. What comes from there is not read, only that it ends.
func (p *peer) connectBack(ctx context.Context) (send func(*wire.RemoteMessage) error, leave func(), err error) {
	back, err := p.l.settings.open(ctx, p.address, &wire.ConnectRequest{ConnectionType: &wire.ConnectRequest_ServerConnection{
		ServerConnection: &wire.ServerConnection{SystemId: p.l.node.System.ID, Address: p.l.address}}})
	if err != nil {
		return nil, nil, err
	}
	return back.Send, back.close, nil
}
