package millracetest

import (
	"log/slog"
	"time"
)

// TB is what a Driver needs of a test: *testing.T, *testing.B, *testing.F and *rapid.T have it.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// DriverOption changes one thing about a Driver.
type DriverOption func(*options)

type options struct {
	partitions map[string]int32
	def        int32
	now        time.Time
	logger     *slog.Logger
	cacheBytes int64
	// app is the application id.
	app string
}

func defaults() options {
	return options{partitions: map[string]int32{}, def: 1, now: time.UnixMilli(0), logger: slog.New(slog.DiscardHandler), cacheBytes: 16 << 20, app: "driver"}
}

// Partitions gives an external topic n partitions; without it a topic has one, or as many as AllPartitions says.
func Partitions(topic string, n int32) DriverOption {
	return func(o *options) { o.partitions[topic] = n }
}

// AllPartitions gives every external topic n partitions that Partitions does not name.
func AllPartitions(n int32) DriverOption { return func(o *options) { o.def = n } }

// StartAt is where the clock begins; without it at the Unix epoch.
func StartAt(t time.Time) DriverOption { return func(o *options) { o.now = t } }

// Logger hears what the stores and tasks say; without it nobody does.
func Logger(l *slog.Logger) DriverOption { return func(o *options) { o.logger = l } }
