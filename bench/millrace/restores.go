package main

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/lifecycle"
)

// watchRestores listens to the node from now on. What it returns is how long restoring took so far, in seconds: from the
// first task that began it to the last that was done.
func watchRestores(ctx context.Context, node *millrace.Node) (seconds func() float64) {
	var mu sync.Mutex // protects the two times, which the reader of events writes and the caller asks for once
	var began, ended time.Time
	events := node.Events(ctx)
	go func() {
		for e := range events {
			if e.Kind != millrace.KindTask {
				continue
			}
			mu.Lock()
			switch {
			case e.New == lifecycle.TaskRestoring.String() && began.IsZero():
				began = e.Time
			case e.Old == lifecycle.TaskRestoring.String() && e.New == lifecycle.TaskRunning.String():
				ended = e.Time
			}
			mu.Unlock()
		}
	}()
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return max(0, ended.Sub(began).Seconds())
	}
}
