package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// tries is how often a node is stopped before it counts as never in a commit; one in about ten is.
	tries = 300
	// landing is how long the requests that a stopped node has sent already may need to be carried out.
	landing = 15 * time.Millisecond
	// stride lets a node that goes on reach another point of its commits each time: no multiple of the commit interval.
	stride = 37 * time.Millisecond
)

// freezeInCommit stops a node between AddOffsets and EndTxn. That is where its transaction holds a partition of the offsets
// topic and is not being ended, which only the coordinator can tell, and only of a node that stands still: the node is
// stopped again and again, for a moment each, until it is there. If it never is (its coordinator may be one that does not
// answer), it is stopped where it happens to be.
func (r *run) freezeInCommit(ctx context.Context, n *node) error {
	var process string
	err := r.await(ctx, "the process id of "+n.name(), startLimit, func(context.Context) (err error) {
		process, err = n.processID()
		return err
	})
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		if err := n.signal(freeze); err != nil {
			return err
		}
		if err := r.pause(ctx, landing); err != nil {
			return err
		}
		found, _ := r.client.InCommit(func(id string) bool { return strings.Contains(id, process) }) // none is as good as not known
		if len(found) > 0 {
			r.hits++
			r.say("    stopped in the commit of %s, at the %d. try", strings.Join(found, " and "), try)
			return nil
		}
		if try == tries {
			r.say("    %s was never seen in a commit", n.name())
			return nil
		}
		if err := n.signal(thaw); err != nil {
			return err
		}
		if err := r.pause(ctx, stride); err != nil {
			return err
		}
	}
}

// processID is in the state directory, a moment after the first start on it, and in the node's transactional ids.
func (n *node) processID() (string, error) {
	text, err := os.ReadFile(filepath.Join(n.stateDir(), application, "process"))
	id := strings.TrimSpace(string(text))
	if err == nil && id == "" {
		err = fmt.Errorf("the process id of %s is empty", n.name())
	}
	return id, err
}
