package main

import (
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// taken is a span as a collector has it, with the service that it is from.
type taken struct {
	service, instance string
	*spanpb.Span
}

// collect is a collector: it answers with status, and gives the spans that it takes.
func collect(t *testing.T, status int) (address string, spans <-chan taken) {
	t.Helper()
	all := make(chan taken, 10_000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var batch collector.ExportTraceServiceRequest
		if r.URL.Path != "/v1/traces" || err != nil || proto.Unmarshal(body, &batch) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(status)
		for _, of := range batch.ResourceSpans {
			about := map[string]string{}
			for _, a := range of.Resource.Attributes {
				about[a.Key] = a.Value.GetStringValue()
			}
			for _, scope := range of.ScopeSpans {
				for _, span := range scope.Spans {
					all <- taken{about["service.name"], about["service.instance.id"], span}
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, all
}

const traceID, parentID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

// A node that is told of a collector sends it its spans, with links to what the records came from.
func TestSpansGoToTheCollector(t *testing.T) {
	address, spans := collect(t, http.StatusOK)
	addrs := brokers(t)
	d := startDev(t, "--brokers", addrs, "--app", "traced", "--state-dir", t.TempDir(), "--trace-endpoint", address)
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(addrs, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	line := &kgo.Record{Topic: linesTopic("traced"), Value: []byte("some words"),
		Headers: []kgo.RecordHeader{{Key: "traceparent", Value: []byte("00-" + traceID + "-" + parentID + "-01")}}}
	if err := client.ProduceSync(t.Context(), line).FirstErr(); err != nil {
		t.Fatal(err)
	}
	linked := func(s taken) bool {
		return slices.ContainsFunc(s.Links, func(l *spanpb.Span_Link) bool {
			return hex.EncodeToString(l.TraceId) == traceID && hex.EncodeToString(l.SpanId) == parentID
		})
	}
	for committed, processed := false, false; !committed || !processed; {
		select {
		case s := <-spans:
			if s.service != "traced" || "http://"+s.instance != d.base {
				t.Fatalf("a span of %q %q, and the node is at %s", s.service, s.instance, d.base)
			}
			committed = committed || s.Name == "commit"
			processed = processed || s.Name == "process "+linesTopic("traced") && linked(s)
		case r := <-d.done:
			t.Fatalf("%+v", r)
		}
	}
	d.stop <- os.Interrupt
	if got := <-d.done; got.code != 0 || got.err != "" {
		t.Error(got)
	}
}

// A collector that is away, refuses, or takes a connection and says nothing, holds up neither the count nor, for longer than it takes to
// give up, the end; it is told of once.
func TestNobodyWaitsForACollector(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refusing, _ := collect(t, http.StatusForbidden)
	dir := t.TempDir()
	files := tree(t, dir)
	for name, address := range map[string]string{"away": "http://127.0.0.1:1", "silent": "http://" + silent.Addr().String(), "refusing": refusing + "/"} {
		got := millrace(t, "", "dev", "--once", "--input", dir, "--trace-endpoint", address, "--trace-ratio", "0.999")
		if got.code != 0 || got.out != reference(files) || strings.Count(got.err, "the collector does not take spans") != 1 {
			t.Errorf("%s: %d %s", name, got.code, got.err)
		}
	}
}
