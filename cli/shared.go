package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/record"
)

// passing says that what this session makes on the cluster is of no use to anybody once it has ended: a single count
// under an application id that nobody chose.
func (s *session) passing() bool { return s.dev && s.once && s.App == "" && len(s.Brokers) > 0 }

// private says that no other process can feed this application.
func (s *session) private() bool { return len(s.Brokers) == 0 || s.passing() }

// deleteTopics deletes what a passing session has made, and nothing that was there before: a topology of a user's own names topics
// that are somebody's. Its group goes with them: the last member has left it, the broker
// forgets the offsets of topics that are deleted, and a group with neither is removed at the broker's next round.
func (s *session) deleteTopics() error {
	topics := append(slices.Clone(s.made), s.topology.InternalTopics(s.id)...)
	ctx, cancel := context.WithTimeout(s.halt.abandoned, 15*time.Second)
	defer cancel()
	if err := s.cluster.Delete(ctx, topics); err != nil {
		s.say.warn("The topics of this count stay on the cluster (%s); delete them: %s", sentence(err), strings.Join(topics, ", "))
	}
	return nil
}

// claimFeed waits until this process is the only one that feeds topic. The claim is nil where there can be no other.
func (s *session) claimFeed(topic string) (*claim, error) {
	if s.private() {
		return nil, nil
	}
	// A claim is in the name of the state directory, which is locked once the node runs.
	if err := s.node.Ready(s.life); err != nil {
		return nil, err
	}
	process, err := s.node.ProcessID()
	if err != nil {
		return nil, failf(err, "the state directory does not say whose it is; give --state-dir another directory")
	}
	log, err := s.world.Claims(s.life, s.access, claimTopic(s.id))
	if err != nil {
		return nil, failf(err, "topic %s, in which processes agree on who feeds, cannot be used; give another --app", claimTopic(s.id))
	}
	s.closing(log.Close)
	c := &claim{log: log, process: process, patience: s.SessionTimeout,
		progress: func(ctx context.Context) (string, error) { return s.ends(ctx, topic) },
		waiting:  func() { s.say.ln("Another process feeds topic %s; waiting until it has.", topic) }}
	if err := c.acquire(s.life); err != nil {
		return nil, failf(err, "topic %s, in which processes agree on who feeds, cannot be used; give another --app", claimTopic(s.id))
	}
	return c, nil
}

// ends tells, as text, up to where each partition of a topic is fed.
func (s *session) ends(ctx context.Context, topic string) (string, error) {
	tails, err := s.cluster.Tails(ctx, topic)
	if err != nil {
		return "", err
	}
	offsets := make([]int64, len(tails))
	for i, r := range tails {
		if r != nil {
			offsets[i] = r.Offset + 1
		}
	}
	return fmt.Sprint(offsets), nil
}

// releaseFeed lets the next process feed. Its failure costs that process the patience, and nothing else.
func (s *session) releaseFeed(c *claim) {
	if c == nil || c.released {
		return
	}
	c.released = true
	ctx, cancel := context.WithTimeout(s.halt.abandoned, 5*time.Second)
	defer cancel()
	if err := c.release(ctx); err != nil {
		s.say.warn("The claim to feed was not given back (%s); the next process that feeds waits %s.", sentence(err), s.SessionTimeout)
	}
}

// claimedSink writes only while the claim holds.
type claimedSink struct {
	sink
	claim *claim
}

// Append implements sink.
func (s *claimedSink) Append(ctx context.Context, partition int32, r *record.Raw) error {
	if err := s.claim.check(ctx); err != nil {
		return err
	}
	return s.sink.Append(ctx, partition, r)
}
