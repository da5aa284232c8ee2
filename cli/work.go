package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// work is what the verb is for.
func (s *session) work() error {
	s.start()
	if s.once {
		return s.orCause(s.countOnce())
	}
	return s.orCause(s.keepRunning())
}

// orCause prefers why the session ended to the error that its end caused.
func (s *session) orCause(err error) error {
	if cause := context.Cause(s.life); cause != nil && err != nil {
		return cause
	}
	return err
}

// keepRunning tells where to ask, feeds an empty source topic, and waits for the end.
func (s *session) keepRunning() error {
	if err := s.node.Ready(s.life); err != nil {
		return err
	}
	s.say.tree(s)
	if s.dev && s.app.Demo != nil {
		if err := s.feedEmpty(); err != nil {
			return err
		}
	}
	s.say.where(s)
	<-s.life.Done()
	return context.Cause(s.life)
}

// feedEmpty feeds only into a topic that never had a record, so that a second start doubles nothing.
func (s *session) feedEmpty() error {
	lines := s.app.Demo.Lines(s.id)
	claim, err := s.claimFeed(lines)
	if err != nil {
		return err
	}
	defer s.releaseFeed(claim)
	f, err := s.feed(lines, quiet{}, claim)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(f.last, func(p *position) bool { return p != nil }) {
		s.say.ln("Topic %s has text already; nothing is fed.", lines)
		return nil
	}
	if err := f.run(s.life, s.inputs); err != nil {
		return err
	}
	s.releaseFeed(claim)
	s.say.ln("Lines fed into topic %[2]s: %[1]d. Counting them.", f.fed, lines)
	return s.node.Drain(s.life)
}

// countOnce feeds what is not fed yet, waits until it is counted, and prints the counts.
func (s *session) countOnce() error {
	lines := s.app.Demo.Lines(s.id)
	claim, err := s.claimFeed(lines)
	if err != nil {
		return err
	}
	defer s.releaseFeed(claim)
	p := newProgress(s.proc.Err, s.say, s.inputs)
	f, err := s.feed(lines, p, claim)
	if err != nil {
		return err
	}
	if err := f.run(s.life, s.inputs); err != nil {
		return err
	}
	s.releaseFeed(claim)
	p.done()
	s.say.ln("Lines fed: %d. Waiting until all of them are counted and committed.", f.fed)
	if err := s.node.Drain(s.life); err != nil {
		return err
	}
	counts, err := s.counts()
	if err != nil {
		return err
	}
	return printCounts(s.proc.Out, counts)
}

// feed prepares a feed into topic that goes on behind what the topic holds.
func (s *session) feed(topic string, p progress, c *claim) (*feed, error) {
	tails, err := s.cluster.Tails(s.life, topic)
	if err != nil {
		return nil, failf(err, "topic %s cannot be read", topic)
	}
	f := &feed{appID: s.id, last: make([]*position, len(tails)), now: time.Now, tell: p.fed, warn: s.say.warn}
	for i, r := range tails {
		if r == nil {
			continue
		}
		at, err := positionOf(r)
		if err != nil && s.once {
			return nil, failf(err, "topic %s was not fed by this command, so it cannot be seen what is missing; give another --app", topic)
		}
		f.last[i] = &at
	}
	f.sink, err = s.cluster.Sink(topic)
	if err != nil {
		return nil, failf(err, "topic %s cannot be written", topic)
	}
	s.closing(f.sink.Close)
	if c != nil {
		f.sink = &claimedSink{f.sink, c}
	}
	return f, nil
}

// counts asks the store for everything. Half of the partitions would be half of the truth, so this node must own all of
// them, before and after.
func (s *session) counts() (counts []count, err error) {
	for c, err := range s.ownedCounts() {
		if err != nil {
			return nil, failf(err, "the counts cannot be read from store %s", s.app.Demo.Counts.StoreName())
		}
		counts = append(counts, c)
	}
	if !s.node.OwnsAll() {
		return nil, failf(nil, "other processes of application %s own a part of the counts; stop them, or leave out --app for a fresh count", s.id)
	}
	slices.SortFunc(counts, func(a, b count) int { return cmp.Compare(a.word, b.word) })
	return counts, nil
}

func (s *session) ownedCounts() func(yield func(count, error) bool) {
	if !s.node.OwnsAll() {
		return func(func(count, error) bool) {}
	}
	return s.node.Counts(s.life, s.app.Demo.Counts)
}

// printCounts writes a line for each word: the word, a tab, its count.
func printCounts(out io.Writer, counts []count) error {
	w := bufio.NewWriterSize(out, 64<<10)
	for _, c := range counts {
		fmt.Fprintf(w, "%s\t%d\n", c.word, c.n)
	}
	if err := w.Flush(); err != nil {
		return failf(err, "the counts cannot be written to standard output")
	}
	return nil
}
