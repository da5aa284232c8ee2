package measure

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Watch returns what was counted, and not before everything that was asked for is there.
func TestWatchEndsWhenAllIsSeen(t *testing.T) {
	var p Progress
	p.Seen.New().Add(7)
	p.Outputs.New().Add(3)
	ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	if _, err := p.Watch(ctx, 10, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("7 of 10 records were taken for all: %v", err)
	}
	p.Seen.New().Add(3)
	r, err := p.Watch(context.Background(), 10, 0)
	if err != nil || r.Records != 10 || r.Outputs != 3 {
		t.Errorf("Watch = %+v, %v", r, err)
	}
}
