package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/cli"
	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// The Kafka client's metrics library keeps one ticker for the whole process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// The command prints what the comment at the top of main.go shows.
func TestCountsAlerts(t *testing.T) {
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), app, cli.Process{Args: []string{"dev", "--once", "--listen", "127.0.0.1:0"}, Environ: func() []string { return nil },
		In: strings.NewReader(somePayments), Out: &out, Err: &errs})
	if code != 0 || out.String() != "4000-02\t2\n4000-03\t1\n" {
		t.Fatalf("%d %q: %s", code, out.String(), errs.String())
	}
}

// Each suspicious session is told once, as it was with the payment that made it so, and what is no payment is put aside.
func TestAlertsAndDeadLetters(t *testing.T) {
	top, err := fraud("fraud")
	if err != nil {
		t.Fatal(err)
	}
	cluster := millracetest.NewCluster(t, "fraud")
	for _, topic := range []string{paymentsTopic("fraud"), alerts("fraud").Name(), deadLetters("fraud").Name()} {
		cluster.CreateTopic(topic, 1)
	}
	text := topology.NewTopic(paymentsTopic("fraud"), codec.Bytes, codec.String)
	var lines []millracetest.Record[[]byte, string]
	for line := range strings.Lines(somePayments) {
		lines = append(lines, millracetest.Keyless[[]byte](line))
	}
	millracetest.Produce(cluster, text, lines...)
	node := cluster.Start(top)
	node.Drain()

	var told []string
	for _, a := range millracetest.Consume(cluster, alerts("fraud")) {
		told = append(told, fmt.Sprint(a.Key, " ", time.UnixMilli(a.Value.End).UTC().Format(time.TimeOnly), " ", a.Value.Why))
	}
	want := []string{"4000-02 11:00:41 paid in BR and DE", "4000-03 11:07:00 4 payments without a minute between them", "4000-02 11:20:30 paid in DE and FR"}
	if !slices.Equal(told, want) {
		t.Errorf("alerts: %q, want %q\n%s", told, want, node.Probe())
	}
	dead := millracetest.Consume(cluster, deadLetters("fraud"))
	if len(dead) != 2 {
		t.Fatalf("%d dead letters: %v", len(dead), dead)
	}
	for i, want := range []string{"deserialization", "processing"} {
		stage, _ := dead[i].Headers.Last(topology.HeaderStage)
		why, _ := dead[i].Headers.Last(topology.HeaderMessage)
		if string(stage) != want || len(why) == 0 {
			t.Errorf("dead letter %d failed in %s: %s", i, stage, why)
		}
	}
	node.Stop()
}
