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
	if _, err := p.Watch(ctx, 10, 0, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("7 of 10 records were taken for all: %v", err)
	}
	p.Seen.New().Add(3)
	r, err := p.Watch(context.Background(), 10, 0, nil)
	if err != nil || r.Records != 10 || r.Outputs != 3 {
		t.Errorf("Watch = %+v, %v", r, err)
	}
}

// A watch that is stopped returns what there is, and nothing was used if nothing was seen.
func TestWatchEndsWhenItIsStopped(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	var p Progress
	if r, err := p.Watch(context.Background(), 10, 0, stop); err != nil || r.Records != 0 || r.CPUS != 0 || r.Seconds != 0 {
		t.Errorf("Watch = %+v, %v", r, err)
	}
}

var kept [][]byte

func TestAllocatedCountsObjectsAndBytes(t *testing.T) {
	objects, bytes := Allocated()
	for range 1000 {
		kept = append(kept, make([]byte, 1024))
	}
	after, more := Allocated()
	if after-objects < 900 || more-bytes < 900*1024 { // what is not a whole span yet is not counted yet
		t.Errorf("1000 slices of 1 KiB: %d objects, %d bytes", after-objects, more-bytes)
	}
}
