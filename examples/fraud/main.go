// Command fraud watches card payments. Payments of a card with less than a minute between them are a session; one that was
// paid in two countries, or with four payments or more, is told once, in the topic fraud-alerts, while it is still open.
// What is no payment goes to the topic fraud-dead, with why in its headers, and holds nothing up.
//
// With a broker and fourteen payments of its own, two of which are none, it prints how many alerts each card had:
//
//	$ go run ./examples/fraud dev --once < examples/fraud/payments.json
//	4000-02	2
//	4000-03	1
//
// Without --once it goes on. The sessions of a card, with what was paid in them, and the last alert of one:
//
//	go run ./examples/fraud dev
//	go run ./examples/fraud get sessions 4000-02
//	go run ./examples/fraud get alarms 4000-02
//
// On a cluster, where somebody writes a payment as JSON into each record of fraud-payments, and the three topics are there:
//
//	go run ./examples/fraud run --brokers 127.0.0.1:9092 --state-dir /var/lib/fraud
package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/cli"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

//go:embed payments.json
var somePayments string

type payment struct {
	Card    string    `json:"card"`
	Cents   int64     `json:"cents"`
	Country string    `json:"country"`
	At      time.Time `json:"at"`
}

// burst is what is known of a session.
type burst struct {
	Payments  int      `json:"payments"`
	Cents     int64    `json:"cents"`
	Countries []string `json:"countries"`
}

const gap = time.Minute

var (
	byCard   = topology.NewRepartition("by-card", codec.String, codec.JSON[payment]())
	sessions = topology.NewSessionStore("sessions", codec.String, codec.JSON[burst](), 24*time.Hour)
	alarms   = topology.NewKeyValueStore("alarms", codec.String, codec.JSON[alert]())
	counts   = topology.NewKeyValueStore("alerts", codec.String, codec.Int64)
)

func paymentsTopic(app string) string { return app + "-payments" }

func payments(app string) topology.Topic[[]byte, payment] {
	return topology.NewTopic(paymentsTopic(app), codec.Bytes, codec.JSON[payment]()).
		WithTimestamp(func(p record.Record[[]byte, payment]) int64 { return p.Value.At.UnixMilli() })
}

func alerts(app string) topology.Topic[string, alert] {
	return topology.NewTopic(app+"-alerts", codec.String, codec.JSON[alert]())
}

func deadLetters(app string) topology.Topic[[]byte, []byte] {
	return topology.NewTopic(app+"-dead", codec.Bytes, codec.Bytes)
}

func fraud(app string) (*topology.Topology, error) {
	b := topology.NewBuilder()
	b.DeadLetterTopic(deadLetters(app).Name())
	b.Always(topology.Deserialization, topology.DeadLetter)
	b.Always(topology.Processing, topology.DeadLetter)

	good := topology.Map(topology.From(b, payments(app)), func(p record.Record[[]byte, payment]) (record.Record[string, payment], error) {
		if p.Value.Card == "" || p.Value.Cents <= 0 {
			return record.Record[string, payment]{}, fmt.Errorf("a payment of %d cents with card %q is none", p.Value.Cents, p.Value.Card)
		}
		return record.New(p.Value.Card, p.Value, p.Timestamp), nil
	})
	bursts := topology.AggregateSessions(topology.Through(good, byCard), topology.SessionWindows(gap).WithGrace(time.Hour), sessions,
		func() burst { return burst{} }, add, join, topology.EveryUpdate())
	told := topology.Process(bursts, "alarm", newAlarm, alarms)
	topology.To(told, alerts(app))
	topology.Count(told, counts)
	return b.Build()
}

func add(_ string, p payment, s burst) (burst, error) {
	return join("", s, burst{Payments: 1, Cents: p.Cents, Countries: []string{p.Country}})
}

// join makes one session of two between which a payment came in late.
func join(_ string, a, b burst) (burst, error) {
	a.Payments, a.Cents = a.Payments+b.Payments, a.Cents+b.Cents
	a.Countries = append(slices.Clone(a.Countries), b.Countries...)
	slices.Sort(a.Countries)
	a.Countries = slices.Compact(a.Countries)
	return a, nil
}

// suspicious says what is the matter with a session, or nothing.
func (s burst) suspicious() string {
	switch {
	case len(s.Countries) > 1:
		return "paid in " + strings.Join(s.Countries, " and ")
	case s.Payments >= 4:
		return fmt.Sprintf("%d payments without a minute between them", s.Payments)
	}
	return ""
}

var app = cli.App{Name: "fraud", Topology: fraud,
	Demo: &cli.Demo{Lines: paymentsTopic, Counts: counts, Text: somePayments, Key: "4000-02"}}

func main() { cli.Main(app) }
