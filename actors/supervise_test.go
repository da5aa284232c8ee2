package actors_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/actors"
)

func TestHistoryBacksOffAndGivesUp(t *testing.T) {
	i := actors.Intensity{Max: 3, Window: time.Minute, First: 100 * time.Millisecond, Cap: 300 * time.Millisecond}
	now := time.Unix(0, 0)
	var h actors.History
	for n, want := range []struct {
		after time.Duration
		delay time.Duration
		over  bool
	}{
		{0, 100 * time.Millisecond, false}, {time.Second, 200 * time.Millisecond, false}, {time.Second, 300 * time.Millisecond, false},
		{time.Second, 300 * time.Millisecond, true},
	} {
		now = now.Add(want.after)
		attempt, delay, over := h.Fail(now, i, 0)
		if attempt != n+1 || delay != want.delay || over != want.over {
			t.Fatalf("failure %d: attempt %d, delay %s, over %v", n+1, attempt, delay, over)
		}
	}
	if attempt, _, over := h.Fail(now.Add(2*time.Minute), i, 0); attempt != 1 || over {
		t.Fatal("failures outside the window count", attempt, over)
	}
	if _, delay, _ := new(actors.History).Fail(now, i, 1); delay != 50*time.Millisecond {
		t.Fatal("full jitter halves the delay:", delay)
	}
}
