package millrace_test

import (
	"net"
	"os"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// toolsVariable names the variable with the address at which TestNodeForTools listens.
const toolsVariable = "MILLRACE_TEST_TOOLS"

// TestNodeForTools is not a test: it is a node with a store of each kind that tools from outside ask over HTTP until it is
// killed, such as schemathesis, which tries everything that the OpenAPI description allows and much that it does not:
//
//	MILLRACE_TEST_TOOLS=127.0.0.1:7070 go test -count=1 -timeout 0 -run '^TestNodeForTools$' .
//	schemathesis --config-file query/httpapi/schemathesis.toml run http://127.0.0.1:7070/openapi.yaml --url http://127.0.0.1:7070
func TestNodeForTools(t *testing.T) {
	addr := os.Getenv(toolsVariable)
	if addr == "" {
		t.Skip("it is for tools from outside")
	}
	c := cluster(t)
	if err := c.Kfake().CreateTopic("countries", 1, nil); err != nil {
		t.Fatal(err)
	}
	views(t, c)
	w := newWriter(t, c, "")
	w.put(record.TopicPartition{Topic: "countries"}, record.Raw{Key: []byte("a"), Value: []byte("b"), Timestamp: 1})
	w.flush()
	everyKind := windowCount(t, func(b *topology.Builder, words topology.Stream[string, string]) {
		topology.Count(words, counts)
		b.AddGlobalStore(topology.NewGlobalStore("countries", topology.NewTopic("countries", codec.String, codec.String)))
	})
	n := start(t, everyKind, millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("listens on %s", l.Addr())
	t.Fatal(n.Server().Serve(httpapi.Limit(l)))
}
