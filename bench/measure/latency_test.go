package measure

import (
	"testing"
	"time"
)

func TestSummarizeTakesThePercentiles(t *testing.T) {
	if Summarize(nil) != nil {
		t.Error("no calls have no distribution")
	}
	var calls []time.Duration
	for i := 1000; i > 0; i-- {
		calls = append(calls, time.Duration(i)*time.Microsecond)
	}
	if got, want := *Summarize(calls), (Latency{1000, 500, 990, 999, 1000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
