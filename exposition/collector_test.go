package exposition

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/proto"
)

// Headers of the environment are read or refused, and no refusal shows what they hold.
func TestHeadersOfTheEnvironment(t *testing.T) {
	for _, c := range []struct{ general, own, want string }{
		{"", "", ""},
		{"authorization=Bearer%20hunter", "", "Bearer hunter"},
		{" authorization = hunter , other=x,", "", "hunter"},
		{"authorization=else", "authorization=hunter", "hunter"},
		{"hunter", "", "refused"}, {"", "authorization=hunter%zz", "refused"}, {"=hunter", "", "refused"}, {"authorization=hunter%0d%0ax:y", "", "refused"}, {"a b=hunter", "", "refused"},
	} {
		headers, err := headersOf(func(name string) string {
			return map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": c.general, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": c.own}[name]
		})
		if (err != nil) != (c.want == "refused") || err == nil && headers.Get("Authorization") != c.want {
			t.Errorf("%+v: %v %v", c, headers, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter") || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_")) {
			t.Error(err)
		}
	}
}

// What a collector answers, of any size, costs no memory, and spans that it refuses are told in the log, once.
func TestAnswersOfACollector(t *testing.T) {
	partial, err := proto.Marshal(&collectorpb.ExportTraceServiceResponse{PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 7, ErrorMessage: "too\nmany"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter")
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the token has gone elsewhere") }))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		told   string
	}{
		"nothing":   {func(http.ResponseWriter) {}, ""},
		"endless":   {func(w http.ResponseWriter) { io.CopyN(w, endless{}, 1<<28) }, ""},
		"partial":   {func(w http.ResponseWriter) { w.Write(partial) }, `it has refused 7 spans: \"too\\nmany\"`},
		"elsewhere": {func(w http.ResponseWriter) { w.Header().Set("Location", elsewhere.URL); w.WriteHeader(307) }, "it answers 307"},
		"wrong":     {func(w http.ResponseWriter) { w.WriteHeader(500) }, "it answers 500"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "hunter" {
				t.Errorf("%s: %v", name, r.Header)
			}
			c.answer(w)
		}))
		var log bytes.Buffer
		traces, err := NewTraces(TracesConfig{Endpoint: s.URL, Ratio: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := traces.exporter.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "process"}}.Snapshots()); err != nil {
				t.Error(name, err)
			}
		}
		traces.Close(t.Context())
		s.Close()
		if told := log.String(); !strings.Contains(told, c.told) || c.told == "" && told != "" || strings.Count(told, "\n") > 1 || strings.Contains(told, "hunter") {
			t.Errorf("%s: %s", name, told)
		}
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// Whoever closes has no time: what is under way ends with it.
func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	came, left := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(came)
		<-r.Context().Done()
		close(left)
	}))
	defer s.Close()
	traces, err := NewTraces(TracesConfig{Endpoint: s.URL, Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, span := traces.Tracer("x").Start(t.Context(), "process")
	span.End()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-came; cancel() }()
	traces.Close(ctx)
	<-left
}

// What the environment says is taken or refused; a header that is taken can be sent, and what is refused is not shown.
func FuzzHeaders(f *testing.F) {
	for _, text := range []string{"", "a=b", "a=b,c=d%20e", "a", "=b", "a=%zz", "a=%0a", " a = b ,", "a:b=c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		headers, err := headersOf(func(name string) string { return map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": text}[name] })
		if err != nil {
			if len(text) > 8 && strings.Contains(err.Error(), text) {
				t.Error(err)
			}
			return
		}
		for name, values := range headers {
			if !httpguts.ValidHeaderFieldName(name) || len(values) != 1 || !httpguts.ValidHeaderFieldValue(values[0]) {
				t.Errorf("%q: %q cannot be sent: %q", text, name, values)
			}
		}
	})
}

// Whatever a collector answers is nothing, or one line about spans that it has refused.
func FuzzAnswer(f *testing.F) {
	for _, said := range []*collectorpb.ExportTracePartialSuccess{nil, {RejectedSpans: 7, ErrorMessage: "too\nmany"}, {RejectedSpans: -1}} {
		b, err := proto.Marshal(&collectorpb.ExportTraceServiceResponse{PartialSuccess: said})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := taken(bytes.NewReader(b)); err != nil && (strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "it has refused")) {
			t.Error(err)
		}
	})
}
