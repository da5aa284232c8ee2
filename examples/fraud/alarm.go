package main

import (
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// alert is a session that somebody should look at: its first and last payment, in milliseconds since the Unix epoch.
type alert struct {
	Start int64  `json:"start"`
	End   int64  `json:"end"`
	Why   string `json:"why"`
}

// alarm tells each suspicious session once, although each of its payments changes it. It remembers the last one of a card.
type alarm struct {
	ctx  *topology.Context[string, alert]
	last *topology.KeyValue[string, alert]
}

func newAlarm() topology.Processor[topology.Windowed[string], burst, string, alert] { return &alarm{} }

func (a *alarm) Init(ctx *topology.Context[string, alert]) (err error) {
	a.ctx = ctx
	a.last, err = alarms.In(ctx)
	return err
}

func (a *alarm) Process(s record.Record[topology.Windowed[string], burst]) error {
	why := s.Value.suspicious()
	if why == "" { // nor is one without a value: it is gone, because it has grown into another one
		return nil
	}
	card, now := s.Key.Key, alert{Start: s.Key.Start, End: s.Key.End, Why: why}
	last, found, err := a.last.Get(card)
	if err != nil {
		return err
	}
	if err := a.last.Put(card, now, s.Timestamp); err != nil {
		return err
	}
	if found && now.Start <= last.End && last.Start <= now.End {
		return nil // the same session, with one more payment
	}
	return a.ctx.Forward(record.New(card, now, s.Timestamp))
}

func (a *alarm) Close() error { return nil }
