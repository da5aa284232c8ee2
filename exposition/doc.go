// Package exposition shows a node's metrics in Prometheus' text form, and sends its spans. Exposition is a MeterProvider of
// OpenTelemetry's SDK with its Prometheus exporter behind it; the runtime itself knows OpenTelemetry's interface only. Give one
// to millrace.WithMeterProvider and the node's Handler answers at /metrics; or serve it elsewhere, since it is an http.Handler.
//
// Traces sends its spans to a collector, in the same way: a TracerProvider for millrace.WithTracerProvider.
//
// docs/metrics.md lists what a node shows. Beside that there are the families go_ and process_ of Prometheus' own client
// about the process.
package exposition
