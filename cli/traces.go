package cli

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/millrace-io/millrace/exposition"
)

// traceSettings are where spans go.
type traceSettings struct {
	TraceEndpoint string  `help:"Collector that takes spans as OTLP over HTTP, such as http://127.0.0.1:4318; without, nothing is traced." placeholder:"URL"`
	TraceRatio    float64 `help:"Share of batches and commits that get a span: above 0, up to 1." default:"1"`
}

func (t *traceSettings) spans(app, instance string, log *slog.Logger) exposition.TracesConfig {
	return exposition.TracesConfig{Endpoint: t.TraceEndpoint, Ratio: t.TraceRatio, Service: app, Instance: instance, Logger: log}
}

// check finds what is no address of a collector, and no share. A share is looked at without a collector too.
func (t *traceSettings) check() error {
	c := t.spans("", "", nil)
	if c.Endpoint == "" {
		c.Endpoint = "http://127.0.0.1:4318" // one that is right
	}
	wrong := (*exposition.TracesError)(nil)
	if err := c.Check(); errors.As(err, &wrong) && (t.TraceEndpoint != "" || wrong.Field == "Ratio") {
		return &UsageError{Detail: "--trace-" + strings.ToLower(wrong.Field) + " " + wrong.Problem, Cause: err}
	}
	return nil
}

// open begins to trace, if that is asked for; nil, nil if it is not.
func (t *traceSettings) open(app, instance string, log *slog.Logger) (*exposition.Traces, error) {
	if t.TraceEndpoint == "" {
		return nil, nil
	}
	traces, err := exposition.NewTraces(t.spans(app, instance, log))
	if err != nil {
		return nil, &UsageError{Detail: "--trace-endpoint cannot be used: " + err.Error(), Cause: err}
	}
	return traces, nil
}
