package thread

import (
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	p := Patience{Stuck: time.Second, Poll: time.Minute}
	for busy, want := range map[time.Duration]Verdict{
		0: Steps, time.Second - 1: Steps, time.Second: Stuck, time.Minute - 1: Stuck, time.Minute: Overdue, time.Hour: Overdue,
	} {
		if got := p.Judge(busy); got != want {
			t.Errorf("%s is judged %d, not %d", busy, got, want)
		}
	}
}

// Between steps a loop waits for events, however long that takes.
func TestPulseIsOfSteps(t *testing.T) {
	var p Pulse
	now := time.Unix(100, 0)
	if p.Busy(now) != 0 {
		t.Error("busy before the first step")
	}
	p.begin(now)
	if got := p.Busy(now.Add(time.Second)); got != time.Second {
		t.Error(got)
	}
	p.end()
	if got := p.Busy(now.Add(time.Hour)); got != 0 {
		t.Error(got)
	}
}

// Slow user code shortens steps down to one record, quick code makes them long again.
func TestPaceFollowsTheCode(t *testing.T) {
	p := pace{1000, 1000}
	for range 20 {
		p.took(time.Duration(p.now) * time.Second)
	}
	if p.now != 1 {
		t.Errorf("%d records of a second each", p.now)
	}
	p.took(100 * time.Millisecond)
	if p.now != 1 {
		t.Errorf("%d records", p.now)
	}
	for range 20 {
		p.took(time.Millisecond)
	}
	if p.now != 1000 {
		t.Errorf("%d quick records", p.now)
	}
}
