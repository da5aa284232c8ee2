package remote

import (
	"net"
	"net/http"
	"strings"
	"testing"

	wire "github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// A PID's id is a gate's exactly if gateID writes it.
func FuzzParseTarget(f *testing.F) {
	for _, id := range []string{"app/query", "app/query/", "app/query/counts/0", "app/query/counts/-1", "app/query/counts/007", "app/query//0", "app/query/a/b/1", "app/query/counts/2147483648", "x", ""} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		at, ok := parseTarget("app", id)
		switch {
		case !ok:
		case at.store == "" && id != "app/query", at.store != "" && gateID("app", at.store, at.partition) != id, strings.Contains(at.store, "/"):
			t.Errorf("%q is taken for %+v", id, at)
		}
	})
}

// Whatever bytes a peer sends as a batch, whole tells which envelopes can be looked at, and a question that decodes can be
// addressed and encoded again.
func FuzzBatch(f *testing.F) {
	q := encodedGet(f)
	f.Add(mustMarshal(f, batch([]outgoing{{target: pidOf("app/query/counts/0"), sender: pidOf("me"), encoded: q, typeName: "millrace.query.v1.Get"}}).GetMessageBatch()))
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &wire.MessageBatch{}
		if proto.Unmarshal(data, b) != nil {
			return
		}
		for _, e := range b.Envelopes {
			if !whole(b, e) {
				continue
			}
			kind, ok := questions[b.TypeNames[e.TypeId]]
			at, gate := parseTarget("app", b.Targets[e.Target].GetId())
			if !ok || !gate {
				continue
			}
			asked, err := decode(kind, e.MessageData)
			if err != nil {
				continue
			}
			_ = query.Mistake(at.addressed(asked))
			again, err := encode(t.Context(), asked)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := decode(kind, again); err != nil || back.GetAbout().GetDeadlineMs() != 0 || back.GetAbout().GetTimeoutMs() <= 0 {
				t.Errorf("%v: %v", back, err)
			}
		}
	})
}

func encodedGet(f *testing.F) []byte { return mustMarshal(f, &querypb.Get{Key: []byte("k")}) }

func mustMarshal(f *testing.F, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// FuzzAddress: what names a node is refused, or is an address with a host and a port that can be dialled.
func FuzzAddress(f *testing.F) {
	for _, addr := range []string{"127.0.0.1:7000", "http://node-1:8080", "https://[::1]:8443/", "http://http://a:1", "node-1", ":1", "a:", ""} {
		f.Add(addr)
	}
	f.Fuzz(func(t *testing.T, addr string) {
		scheme, address, err := parseAddress(addr)
		if err != nil {
			return
		}
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			t.Fatalf("%q is %q", addr, address)
		}
		if scheme != "" {
			_, _ = http.NewRequest("GET", scheme+address+"/stores", nil)
		}
	})
}
