package store

import (
	"bytes"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// pager fills a page with what a walk comes by.
type pager struct {
	chosen  chosen
	page    querypb.Page
	entries int // that the page may have
	size    int // bytes that it may have yet
	end     time.Time
	looked  int
	// passed is the last key that was not chosen, if it is behind the last entry.
	passed []byte
	// n entries are in the page. They are appended to scratch if the page is packed, which is not the page's: a buffer that
	// grows with each page would be copied as often as it doubles.
	n       int
	packed  bool
	scratch []byte
	lastAt  int // where the last entry begins in it
	slab    []querypb.Entry
	copies  arena
}

// scratchKept is the most that is kept of a page's buffer for the next page.
const scratchKept = 2 * query.PageBytesMax

// page reads one page of a scan. Whether there is more is known, not guessed: the scan is at an entry that did not fit, or
// its time was over among windows that were not asked for.
func (a *storeActor) page(q *querypb.Range) (*querypb.Page, *view, error) {
	p := &pager{
		entries: bound(q.LimitEntries, query.PageEntries, query.PageEntriesMax),
		size:    bound(q.LimitBytes, query.PageBytes, query.PageBytesMax),
		end:     time.Now().Add(query.PageTime),
		packed:  q.Packed,
		scratch: a.scratch[:0],
	}
	v, err := a.state.walk(a.store, func(live int64) span {
		p.chosen = choose(a.spec, q.Windows, live)
		return p.chosen.within(pageSpan(q))
	}, p.take)
	a.scratch = p.pack()
	return &p.page, v, err
}

// pack puts the packed entries into the page, and gives the buffer for the next one.
func (p *pager) pack() (scratch []byte) {
	if len(p.scratch) > 0 {
		p.page.Packed = bytes.Clone(p.scratch)
		if last := query.EntriesOf(&querypb.Page{Packed: p.page.Packed[p.lastAt:]}); p.page.More && p.page.Resume == nil && last.Next() {
			p.page.Resume = last.Key // for an asker who wants the next page before it has read this one
		}
	}
	if cap(p.scratch) <= scratchKept {
		scratch = p.scratch
	}
	p.scratch = nil // the page keeps the pager
	return scratch
}

// take puts an entry into the page, or passes it by; false ends the page.
func (p *pager) take(key, value []byte, timestamp int64) bool {
	late := p.looked%64 == 63 && time.Now().After(p.end)
	p.looked++
	if p.chosen.spec != nil && !p.chosen.has(key) {
		return p.pass(key, late)
	}
	if p.n > 0 && (p.n >= p.entries || p.size < len(key)+len(value) || late) {
		p.more()
		return false
	}
	if p.packed {
		p.lastAt = len(p.scratch)
		p.scratch = query.AppendEntry(p.scratch, key, value, timestamp)
	} else {
		p.list(key, value, timestamp)
	}
	p.n++
	p.size -= len(key) + len(value)
	p.passed = p.passed[:0]
	return true
}

// list puts an entry into the page as a message.
func (p *pager) list(key, value []byte, timestamp int64) {
	if len(p.slab) == 0 {
		p.slab = make([]querypb.Entry, min(p.entries-p.n, max(16, p.n))) // so the last one fits
	}
	e := &p.slab[0]
	p.slab = p.slab[1:]
	e.Key, e.Value, e.Timestamp = p.copies.copy(key), p.copies.copy(value), timestamp
	p.page.Entries = append(p.page.Entries, e)
}

// pass leaves a window out. A page of windows may end there, even an empty one. One of plain bytes goes on: who asks for it
// need not know that windows expire, and a sweep leaves few of them.
func (p *pager) pass(key []byte, late bool) bool {
	if !p.chosen.filtered {
		return true
	}
	p.passed = append(p.passed[:0], key...)
	if late {
		p.more()
	}
	return !late
}

func (p *pager) more() {
	p.page.More = true
	if len(p.passed) > 0 {
		p.page.Resume = p.passed
	}
}

func bound(asked int32, usual, most int) int {
	if asked <= 0 {
		return usual
	}
	return min(int(asked), most)
}

// pageSpan is what is left of a range after the key that was delivered last.
func pageSpan(q *querypb.Range) span {
	s := span{from: q.From, to: q.To, through: q.ToInclusive, reverse: q.Reverse}
	if q.Resume == nil {
		return s
	}
	if q.Reverse {
		if s.to == nil || bytes.Compare(q.Resume, s.to) <= 0 {
			s.to, s.through = q.Resume, false
		}
		return s
	}
	if s.from == nil || bytes.Compare(q.Resume, s.from) >= 0 {
		s.from, s.after = q.Resume, true
	}
	return s
}
