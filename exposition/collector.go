package exposition

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/proto"
)

// collector sends spans over HTTP, each batch once. OpenTelemetry's own client would be the easy version. Those of its releases
// that gRPC as it is here allows read an answer of any size into memory, print a header that they cannot read, token and all,
// and tell of refused spans outside of the log.
type collector struct {
	url     string
	headers http.Header
	client  *http.Client
	// life ends with Stop, and what is being sent ends with it.
	life context.Context
	end  context.CancelFunc
}

const (
	// sendTime is how long a batch may take, and answerBytes how much of an answer is looked at.
	sendTime    = 10 * time.Second
	answerBytes = 64 << 10
)

func newCollector(to string, headers http.Header) *collector {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: answerBytes}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a token goes where it was meant to
	life, end := context.WithCancel(context.Background())
	return &collector{to, headers, &http.Client{Transport: transport, CheckRedirect: refuse}, life, end}
}

// headersOf are the headers of OpenTelemetry's variables, name=value with commas between, values percent-encoded. No error shows one:
// they hold tokens.
func headersOf(variable func(string) string) (http.Header, error) {
	headers := http.Header{}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} { // the second has the last word
		for pair := range strings.SplitSeq(variable(name), ",") {
			if strings.TrimSpace(pair) == "" {
				continue
			}
			key, encoded, ok := strings.Cut(pair, "=")
			key = strings.TrimSpace(key)
			value, err := url.PathUnescape(strings.TrimSpace(encoded))
			if !ok || err != nil || !httpguts.ValidHeaderFieldName(key) || !httpguts.ValidHeaderFieldValue(value) {
				return nil, &TracesError{"Endpoint", "has headers in " + name + " that cannot be read; give name=value, with commas between and values percent-encoded"}
			}
			headers.Set(key, value)
		}
	}
	return headers, nil
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.end()
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It fails if the collector does not take all spans, within sendTime.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: spans})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = c.headers.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	answer, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("it answers %s", answer.Status)
	}
	return taken(answer.Body)
}

// taken looks for spans that the collector has refused. An answer that is none, or too long for one, says nothing of any.
func taken(answer io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(answer, answerBytes))
	var said collectorpb.ExportTraceServiceResponse
	if err != nil || proto.Unmarshal(b, &said) != nil {
		return nil
	}
	if n := said.GetPartialSuccess().GetRejectedSpans(); n > 0 {
		return fmt.Errorf("it has refused %d spans: %q", n, said.PartialSuccess.ErrorMessage)
	}
	return nil
}
