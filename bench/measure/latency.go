package measure

import (
	"slices"
	"time"
)

// Latency is the distribution of some calls' durations, in microseconds.
type Latency struct {
	Calls int     `json:"calls"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

// Summarize sorts the durations.
func Summarize(calls []time.Duration) *Latency {
	if len(calls) == 0 {
		return nil
	}
	slices.Sort(calls)
	at := func(share float64) float64 {
		return float64(calls[int(share*float64(len(calls)-1))].Nanoseconds()) / 1e3
	}
	return &Latency{len(calls), at(0.5), at(0.99), at(0.999), at(1)}
}
