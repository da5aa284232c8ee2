package query

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/query/querypb"
)

// aheadBytes is from which size on a page says that its scan is a long one: the next page is then asked for while this one
// is delivered, so that the store reads when the caller computes, and another process's answer is there when it is needed.
//
// A page that was read ahead is as old as the delivery of the one before it, no older than that page's own last entries. What
// the scan promises does not depend on it: the question is bound to the scan's lease, every entry is validated when it is
// delivered, against what was published before the page was asked for, and a failure of the question is nobody's: the
// scan asks again when it is there, and that answer counts.
const aheadBytes = 32 << 10

// ahead is a question that is under way for a scan. Its goroutine ends with the answer, at the latest when the question's time
// is over; a scan that is left ends it.
type ahead struct {
	answer chan *querypb.Reply // nil if there is none
	asked  time.Time
	cancel context.CancelFunc
}

// readAhead asks for the next page.
func (s *walk[K, V]) readAhead() {
	if !s.more || s.at == nil || len(s.page.packed) < aheadBytes {
		return
	}
	ctx, cancel := context.WithCancel(s.outer) // without the Watch, which is the scan's goroutine's
	a := &ahead{answer: make(chan *querypb.Reply, 1), asked: time.Now(), cancel: cancel}
	q := s.question()
	go func() {
		defer cancel()
		r, err := s.asks(ctx, q)
		if err != nil {
			r = nil
		}
		a.answer <- r
	}()
	s.ahead = a
}

// askedAhead waits for the page that was asked for before it was needed; nil if there is none, if it has failed, or if the
// scan's time is over.
func (s *walk[K, V]) askedAhead() *querypb.Reply {
	a := s.ahead
	if a == nil {
		return nil
	}
	s.ahead = nil
	select {
	case r := <-a.answer:
		if r != nil {
			s.fetched = a.asked
		}
		return r
	case <-s.ctx.Done():
		a.cancel()
		return nil
	}
}

// leave ends what is under way.
func (s *walk[K, V]) leave() {
	if s.ahead != nil {
		s.ahead.cancel()
		s.ahead = nil
	}
}
