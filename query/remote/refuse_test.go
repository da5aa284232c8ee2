package remote_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	wire "github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/remote"
)

// hostile is a client that speaks the wire protocol as it likes.
type hostile struct {
	wire.Remoting_ReceiveClient
	t *testing.T
}

func attack(t *testing.T, address string) *hostile {
	t.Helper()
	channel, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { channel.Close() })
	s, err := wire.NewRemotingClient(channel).Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &hostile{s, t}
}

func client() *wire.ConnectRequest {
	return &wire.ConnectRequest{ConnectionType: &wire.ConnectRequest_ClientConnection{ClientConnection: &wire.ClientConnection{}}}
}

func listening(address string) *wire.ConnectRequest {
	return &wire.ConnectRequest{ConnectionType: &wire.ConnectRequest_ServerConnection{ServerConnection: &wire.ServerConnection{Address: address}}}
}

func (h *hostile) hello(c *wire.ConnectRequest) error {
	h.t.Helper()
	err := h.Send(&wire.RemoteMessage{MessageType: &wire.RemoteMessage_ConnectRequest{ConnectRequest: c}})
	if err == nil || errors.Is(err, io.EOF) {
		_, err = h.Recv()
	}
	return err
}

// message sends one message of a type, by its name, to an actor, from a sender whose address may be a lie.
func (h *hostile) message(to, typeName string, data []byte, sender *actor.PID) {
	h.t.Helper()
	e := &wire.MessageEnvelope{MessageData: data}
	b := &wire.MessageBatch{TypeNames: []string{typeName}, Targets: []*actor.PID{{Address: "whatever", Id: to}}, Envelopes: []*wire.MessageEnvelope{e}}
	if sender != nil {
		b.Senders, e.Sender, e.SenderRequestId = []*actor.PID{{Address: sender.Address, Id: sender.Id}}, 1, sender.RequestId
	}
	h.batch(b)
}

func (h *hostile) batch(b *wire.MessageBatch) {
	h.t.Helper()
	if err := h.Send(&wire.RemoteMessage{MessageType: &wire.RemoteMessage_MessageBatch{MessageBatch: b}}); err != nil {
		h.t.Fatal(err)
	}
}

// answer waits for the next reply.
func (h *hostile) answer() *querypb.Reply {
	h.t.Helper()
	m, err := h.Recv()
	if err != nil {
		h.t.Fatal(err)
	}
	reply := &querypb.Reply{}
	if err := proto.Unmarshal(m.GetMessageBatch().GetEnvelopes()[0].MessageData, reply); err != nil {
		h.t.Fatal(err)
	}
	return reply
}

func bytesOf(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// Whatever a raw client sends that is not a question to a gate changes nothing, is counted under its reason, and is told to
// a sender that gave its own address.
func TestNothingButQuestionsComesIn(t *testing.T) {
	r := start(t, 1, answers)
	struck := make(chan any, 16)
	victim := r.system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); !ok {
			struck <- ctx.Message()
		}
	}))
	get := string(proto.MessageName(&querypb.Get{}))
	question, me := bytesOf(&querypb.Get{Key: []byte("k")}), &actor.PID{Id: "me", RequestId: 7}
	const gate = "app/query/counts/0"
	for _, c := range []struct {
		reason, to, typeName string
		data                 []byte
		sender               *actor.PID
		told                 bool
	}{
		{"system", victim.Id, "actor.Stop", nil, nil, false},
		{"system", gate, "actor.Stop", nil, me, true},
		{"system", gate, "actor.Watch", bytesOf(&actor.Watch{Watcher: me}), me, true},
		{"system", victim.Id, "actor.PoisonPill", nil, me, true},
		{"system", gate, "actor.Terminated", bytesOf(&actor.Terminated{Who: victim}), nil, false},
		{"remoting", "activator", "remote.ActorPidRequest", bytesOf(&wire.ActorPidRequest{Kind: "anything", Name: "spawned"}), me, true},
		{"unknown_type", gate, "no.such.Type", nil, me, true},
		{"not_a_question", gate, "millrace.query.v1.Reply", bytesOf(&querypb.Reply{}), me, true},
		{"not_a_question", "millrace/ask", "millrace.query.v1.Reply", bytesOf(&querypb.Reply{}), nil, false},
		{"not_a_question", gate, "google.protobuf.Any", nil, nil, false},
		{"not_a_gate", victim.Id, get, question, me, true},
		{"not_a_gate", "other/query/counts/0", get, question, me, true},
		{"not_a_gate", "app/query/counts/00", get, question, me, true},
		{"not_a_gate", "app/query/counts/0/../1", get, question, me, true},
		{"no_sender", gate, get, question, nil, false},
		{"foreign_sender", gate, get, question, &actor.PID{Address: "10.0.0.1:1", Id: "x"}, false},
		{"malformed", gate, get, []byte{0xff}, me, true},
	} {
		h := attack(t, r.Address())
		if err := h.hello(client()); err != nil {
			t.Fatal(err)
		}
		before := r.Refusals().Counts()
		h.message(c.to, c.typeName, c.data, c.sender)
		if c.told {
			if k := h.answer().GetFailure().GetKind(); k != querypb.Kind_KIND_INVALID_QUERY {
				t.Errorf("%s to %s: told %v", c.typeName, c.to, k)
			}
		}
		h.message(gate, get, question, me)
		if v := h.answer().GetValue(); string(v.GetValue()) != "k" {
			t.Errorf("%s to %s: afterwards the gate says %v", c.typeName, c.to, v)
		}
		after := r.Refusals().Counts()
		for reason, n := range after {
			want := before[reason]
			if reason == c.reason {
				want++
			}
			if n != want {
				t.Errorf("%s to %s: %s is counted %d times, want %d", c.typeName, c.to, reason, n, want)
			}
		}
	}
	r.system.Root.Send(victim, "alive")
	if m := <-struck; m != "alive" {
		t.Errorf("an actor was reached with %v", m)
	}
	if _, ok := r.system.ProcessRegistry.GetLocal("spawned"); ok {
		t.Error("an actor was spawned")
	}
}

// A stream that breaks the protocol ends, and the node goes on.
func TestBrokenStreamsEnd(t *testing.T) {
	r := start(t, 1, answers)
	whole := func() *wire.MessageBatch {
		return &wire.MessageBatch{TypeNames: []string{"millrace.query.v1.Get"}, Targets: []*actor.PID{{Id: "app/query/counts/0"}}, Envelopes: []*wire.MessageEnvelope{{}}}
	}
	for name, change := range map[string]func(*wire.MessageBatch){
		"target":     func(b *wire.MessageBatch) { b.Envelopes[0].Target = 1 },
		"negative":   func(b *wire.MessageBatch) { b.Envelopes[0].Target = -1 },
		"type":       func(b *wire.MessageBatch) { b.TypeNames = nil },
		"sender":     func(b *wire.MessageBatch) { b.Envelopes[0].Sender = 3 },
		"serializer": func(b *wire.MessageBatch) { b.Envelopes[0].SerializerId = 1 },
	} {
		h := attack(t, r.Address())
		if err := h.hello(client()); err != nil {
			t.Fatal(err)
		}
		b := whole()
		change(b)
		h.batch(b)
		if _, err := h.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := attack(t, r.Address())
	h.batch(whole())
	if _, err := h.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("no introduction: %v", err)
	}
	for name, c := range map[string]*wire.ConnectRequest{"no address": listening(""), "another machine": listening("192.0.2.1:80"), "nothing": {}} {
		if err := attack(t, r.Address()).hello(c); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := r.Refusals().Counts(); n["malformed"] != 5 || n["peers"] != 4 {
		t.Error(n)
	}
	if _, err := wire.NewRemotingClient(dialChannel(t, r.Address())).ListProcesses(t.Context(), &wire.ListProcessesRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("the processes are listed: %v", err)
	}
}

func dialChannel(t *testing.T, address string) *grpc.ClientConn {
	channel, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { channel.Close() })
	return channel
}

// One that goes on sending what is not admitted is cut off.
func TestTooManyRefusalsEndTheStream(t *testing.T) {
	r := start(t, 1, answers)
	h := attack(t, r.Address())
	if err := h.hello(client()); err != nil {
		t.Fatal(err)
	}
	b := &wire.MessageBatch{TypeNames: []string{"no.such.Type"}, Targets: []*actor.PID{{Id: "x"}}}
	for range remote.MaxRefusals + 1 {
		b.Envelopes = append(b.Envelopes, &wire.MessageEnvelope{})
	}
	h.batch(b)
	if _, err := h.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
}

// Every question of query.proto is admitted, and nothing else of it.
func TestQuestionsAreAdmitted(t *testing.T) {
	names := remote.Questions()
	slices.Sort(names)
	for _, want := range []string{"Count", "Get", "GetMany", "ListRestores", "ListStores", "Locate", "Open", "Range"} {
		if !slices.Contains(names, "millrace.query.v1."+want) {
			t.Errorf("%s is not admitted: %v", want, names)
		}
	}
	for _, no := range []string{"About", "Reply", "Failure", "Page"} {
		if slices.Contains(names, "millrace.query.v1."+no) {
			t.Errorf("%s is admitted", no)
		}
	}
}

// A peer that asks and never reads keeps a bounded amount, and is cut off; one that never says what it is, too.
func TestGreedyPeersHoldNothing(t *testing.T) {
	page := &querypb.Page{}
	for range 4 {
		page.Entries = append(page.Entries, &querypb.Entry{Key: []byte("k"), Value: make([]byte, 256<<10)})
	}
	r := start(t, 1, func(ctx actor.Context) {
		if _, ok := ctx.Message().(*querypb.Range); ok {
			ctx.Respond(&querypb.Reply{Answer: &querypb.Reply_Page{Page: page}})
		} else {
			answers(ctx)
		}
	})
	silent, err := net.Dial("tcp", r.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), remote.StuckTime+patience)
	defer cancel()
	h := attack(t, r.Address())
	if err := h.hello(client()); err != nil {
		t.Fatal(err)
	}
	b := &wire.MessageBatch{TypeNames: []string{"millrace.query.v1.Range"}, Targets: []*actor.PID{{Id: "app/query/counts/0"}}, Senders: []*actor.PID{{Id: "me"}}}
	for i := range 2_000 {
		b.Envelopes = append(b.Envelopes, &wire.MessageEnvelope{Sender: 1, SenderRequestId: uint32(i + 1)})
	}
	h.batch(b)
	most := int64(0)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for seen := false; !seen || r.Kept() > 0; {
		select {
		case <-ticker.C:
			most = max(most, r.Kept())
			seen = seen || most > remote.MaxPeerBytes/2
		case <-ctx.Done():
			t.Fatalf("%d bytes are kept for a peer that does not read, %d at most", r.Kept(), most)
		}
	}
	if most > remote.MaxPeerBytes || r.Refusals().Counts()["overloaded"] == 0 {
		t.Errorf("%d bytes were kept; %v", most, r.Refusals().Counts())
	}
	silent.SetReadDeadline(time.Now().Add(remote.HelloTime + patience))
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection that says nothing: %v", err)
	}
	if v, _, err := getOnce(t, r.Address()); v != "word" || err != nil {
		t.Error("the node does not answer others:", v, err)
	}
}
