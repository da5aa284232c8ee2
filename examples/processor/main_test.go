package main

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/cli"
)

// The Kafka client's metrics library keeps one ticker for the whole process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

func TestCountsByHand(t *testing.T) {
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), app, cli.Process{Args: []string{"dev", "--once", "--listen", "127.0.0.1:0"}, Environ: func() []string { return nil },
		In: strings.NewReader("by and by\ncount\n\nBY hand\n"), Out: &out, Err: &errs})
	if code != 0 || out.String() != "and\t1\nby\t3\ncount\t1\nhand\t1\n" {
		t.Fatalf("%d %q: %s", code, out.String(), errs.String())
	}
}
