package realkafka

import (
	"testing"

	"go.uber.org/goleak"
)

// The ticker of sarama's metrics library belongs to the process and cannot be stopped.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}
