package query

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record/codec"
)

// Range yields the entries with keys from ≤ key ≤ to, partition after partition from the first to the last, and in each in
// the byte order of the encoded keys: the whole is ordered only if the store has one partition. The codec must be Ordered.
//
// It reads in pages and validates at every step that the store it began on still answers. A failure is the last thing that
// is yielded; it carries the last key that was delivered before it, and its Resume goes on from there.
func Range[K, V any](ctx context.Context, c Client, h Handle[K, V], from, to K, opts ...Option) iter.Seq2[Entry[K, V], error] {
	return Scan(ctx, c, h, Between(from, to), opts...)
}

// ReverseRange is Range in the opposite order: from the last partition to the first, and in each from the last key.
func ReverseRange[K, V any](ctx context.Context, c Client, h Handle[K, V], from, to K, opts ...Option) iter.Seq2[Entry[K, V], error] {
	return Scan(ctx, c, h, Between(from, to), append(slices.Clip(opts), Reverse())...)
}

// Prefix yields the entries whose encoded keys begin with prefix, in the order of Range.
func Prefix[K, V any](ctx context.Context, c Client, h Handle[K, V], prefix []byte, opts ...Option) iter.Seq2[Entry[K, V], error] {
	return Scan(ctx, c, h, Prefixed[K](prefix), opts...)
}

// All yields every entry in the order of Range.
func All[K, V any](ctx context.Context, c Client, h Handle[K, V], opts ...Option) iter.Seq2[Entry[K, V], error] {
	return Scan(ctx, c, h, Everything[K](), opts...)
}

// Scan yields the entries of a span in the order of Range.
func Scan[K, V any](ctx context.Context, c Client, h Handle[K, V], span Span[K], opts ...Option) iter.Seq2[Entry[K, V], error] {
	return bind(c, h, opts).scan(ctx, span)
}

func (b *binding[K, V]) scan(ctx context.Context, span Span[K]) iter.Seq2[Entry[K, V], error] {
	return b.walks(ctx, b.plan(span))
}

func (b *binding[K, V]) walks(ctx context.Context, p plan) iter.Seq2[Entry[K, V], error] {
	return func(yield func(Entry[K, V], error) bool) {
		s := newWalk(ctx, b, p)
		defer s.leave()
		for s.valid() {
			entry, err := s.entry()
			if err != nil {
				break
			}
			s.advance()
			if !yield(entry, nil) {
				return
			}
		}
		if s.err != nil {
			yield(Entry[K, V]{}, s.err)
		}
	}
}

// walk is a scan that stands at one entry. The first page of a partition acquires a lease, unless a View brings one, and
// the others hold it: a scan never joins two incarnations of a store.
type walk[K, V any] struct {
	*binding[K, V]
	// ctx is outer with the Watch.
	ctx    context.Context
	outer  context.Context
	plan   plan
	watch  Watch
	keys   codec.Codec[K]
	values codec.Codec[V]

	begun      bool
	bounds     bounds
	partitions []int32 // that are still to be read; the first is being read
	page       Entries
	here       bool // the scan stands at the entry that page has read
	more       bool
	asked      bool // the first partition was asked
	fetched    time.Time
	// held: something was read, here or in another partition, so the scan holds the store.
	held  bool
	epoch uint64
	last  []byte
	// at is where the store goes on if it has looked further than the last entry of the page; nil otherwise.
	at []byte
	// grown is how many entries the last page was to have.
	grown int32
	// ahead is the next page, if it was asked for already.
	ahead *ahead
	err   error
}

func newWalk[K, V any](ctx context.Context, b *binding[K, V], p plan) *walk[K, V] {
	s := &walk[K, V]{binding: b, outer: ctx, plan: p, keys: b.handle.KeyCodec(), values: b.handle.ValueCodec()}
	s.ctx = WithWatch(ctx, &s.watch)
	return s
}

// start finds out what is to be read.
func (s *walk[K, V]) start() error {
	s.begun = true
	var err error
	if s.bounds, err = s.plan(s.ctx); err != nil {
		return err
	}
	if s.partitions, err = s.over(s.ctx, s.bounds.home); err != nil {
		return err
	}
	if s.opts.reverse {
		slices.Reverse(s.partitions)
	}
	if r := s.opts.resume; r != nil && r.partition != NoPartition {
		at := slices.Index(s.partitions, r.partition)
		if at < 0 {
			return New(PartitionNotInStore, s.handle.StoreName(), r.partition)
		}
		s.partitions, s.last, s.held = s.partitions[at:], r.last, s.leases != nil
	}
	return nil
}

// valid reports whether the scan is at an entry, and has made sure that the store still answers. It is the draft's (v) of
// hasNext, next and peekNextKey. Once it has failed, err stays.
func (s *walk[K, V]) valid() bool {
	if s.err != nil {
		return false
	}
	if !s.begun {
		s.err = s.start()
	}
	for s.err == nil && len(s.partitions) > 0 {
		if s.here || s.page.Next() {
			s.here = true
			s.err = s.cut(s.validate())
			return s.err == nil
		}
		switch {
		case s.page.Broken():
			s.err = s.cut(s.unexpected(&querypb.Reply{Partition: s.partitions[0]}))
		case s.asked && !s.more:
			s.partitions, s.asked, s.last, s.at, s.epoch = s.partitions[1:], false, nil, nil, 0
		default:
			s.err = s.cut(s.turn())
		}
	}
	return false
}

// advance leaves the entry: it counts as delivered.
func (s *walk[K, V]) advance() {
	s.last, s.here = s.page.Key, false
}

// turn reads the next page.
func (s *walk[K, V]) turn() error {
	r := s.askedAhead()
	if r != nil {
		s.track(r)
	} else {
		var err error
		if r, err = s.ask(s.ctx, s.question()); err != nil {
			return err
		}
		s.fetched = time.Now()
	}
	page := r.GetPage()
	if page == nil || (page.More && len(page.Entries)+len(page.Packed) == 0 && !s.moves(page.Resume)) {
		// A page that promises more, brings nothing and gets nowhere would make the scan turn for ever.
		return s.unexpected(r)
	}
	s.at = page.Resume
	s.page, s.more, s.asked, s.held, s.epoch = EntriesOf(page), page.More, true, true, r.Epoch
	s.readAhead()
	return nil
}

// question asks for the next page.
func (s *walk[K, V]) question() *querypb.Range {
	entries, size := s.size()
	return &querypb.Range{
		About: s.holding(), From: s.bounds.from, To: s.bounds.to, ToInclusive: s.bounds.through, Reverse: s.opts.reverse,
		LimitEntries: entries, LimitBytes: size, Resume: s.resume(), Windows: s.bounds.windows, Packed: true,
	}
}

// resume is what the next page is behind.
func (s *walk[K, V]) resume() []byte {
	if s.at != nil {
		return s.at
	}
	return s.last
}

// moves says that a store which has looked as far as that is behind where it was to begin.
func (s *walk[K, V]) moves(to []byte) bool {
	from := s.resume()
	if to == nil || from == nil {
		return to != nil
	}
	c := bytes.Compare(to, from)
	return c != 0 && c < 0 == s.opts.reverse
}

// size bounds the next page. A scan that goes on takes longer pages, so that one that stops after a few entries costs
// little and a long one does not wait for a message every few hundred.
func (s *walk[K, V]) size() (entries, size int32) {
	if s.opts.entries != 0 || s.opts.bytes != 0 {
		return s.opts.entries, s.opts.bytes
	}
	s.grown = min(PageEntriesMax, max(PageEntries, 2*s.grown))
	return s.grown, PageBytesMax
}

// holding is the About of a question that belongs to the scan.
func (s *walk[K, V]) holding() *querypb.About {
	about := s.about(s.ctx, s.partitions[0])
	about.Held = about.Held || s.held
	if s.epoch != 0 {
		about.Epoch = s.epoch
	}
	return about
}

// pageFresh is how long an entry of a page from another process is delivered without asking again. In this process a
// Watch sees every change at once.
const pageFresh = 50 * time.Millisecond

// validate asks the store whether it still answers, if there is any reason to doubt it.
func (s *walk[K, V]) validate() error {
	if s.ctx.Err() != nil {
		return GaveUp(s.ctx, s.handle.StoreName(), s.partitions[0])
	}
	if s.watch.armed() && !s.watch.changed() || !s.watch.armed() && time.Since(s.fetched) < pageFresh {
		return nil
	}
	_, err := s.ask(s.ctx, &querypb.Open{About: s.holding()})
	if !s.watch.armed() {
		s.fetched = time.Now()
	}
	return err
}

// entry is the entry that the scan is at.
func (s *walk[K, V]) entry() (entry Entry[K, V], err error) {
	if entry.Key, err = s.keys.Decode(s.page.Key); err == nil {
		entry.Value, err = s.values.Decode(s.page.Value)
	}
	if err != nil {
		s.err = s.cut(s.notOurs(s.partitions[0], err))
		return Entry[K, V]{}, s.err
	}
	entry.Timestamp, entry.Partition = s.page.Timestamp, s.partitions[0]
	return entry, nil
}

// cut puts where the scan was into a failure. It is called at every step, so it is small enough to be inlined.
func (s *walk[K, V]) cut(err error) error {
	if err == nil {
		return nil
	}
	return s.cutOff(err)
}

// cutOff changes a copy of the failure: the client may have kept it.
func (s *walk[K, V]) cutOff(err error) error {
	f := (*Failure)(nil)
	if !errors.As(err, &f) {
		return err
	}
	c := *f
	c.LastKey, c.Partition = s.last, s.partitions[0]
	return &c
}
