package query_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// long is a client in the same process whose only partition has a million keys, in packed pages that are worth reading ahead.
// The mutex protects what follows it: a scan asks from two goroutines.
type long struct {
	published atomic.Uint64
	// told gets the number of each Range that was answered, from 1 on; ended those whose context has ended.
	told, ended chan int

	mu    sync.Mutex
	lease uint64
	asked int
	// answer, if set, is called with the number of each Range before it is answered.
	answer func(ctx context.Context, n int) *query.Failure
}

const longPage = 2_000

func newLong() *long {
	return &long{lease: 7, told: make(chan int, 1000), ended: make(chan int, 1000)}
}

func (*long) Partitions(context.Context, string) (int32, error) { return 1, nil }

func (l *long) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	query.WatchOf(ctx).Arm(&l.published)
	l.mu.Lock()
	lease, r := l.lease, (*querypb.Range)(nil)
	if asked, ok := q.(*querypb.Range); ok {
		r = asked
		l.asked++
	}
	n, answer := l.asked, l.answer
	l.mu.Unlock()
	if e := q.GetAbout().GetEpoch(); e != 0 && e != lease {
		return nil, query.New(query.StateStoreMigrated, "counts", 0)
	}
	reply := &querypb.Reply{Store: "counts", Epoch: lease, Position: []*querypb.Position{{Topic: "lines", Next: int64(n)}}, Answer: &querypb.Reply_Lease{Lease: &querypb.Lease{}}}
	if r == nil {
		return reply, nil
	}
	if answer != nil {
		if f := answer(ctx, n); f != nil {
			l.told <- n
			return nil, f
		}
	}
	first := 0
	if r.Resume != nil {
		if _, err := fmt.Sscanf(string(r.Resume), "k%d", &first); err != nil {
			return nil, err
		}
		first++
	}
	page := &querypb.Page{More: true}
	for i := range longPage {
		page.Resume = longKey(first + i)
		page.Packed = query.AppendEntry(page.Packed, page.Resume, make([]byte, 8), 1)
	}
	reply.Answer = &querypb.Reply_Page{Page: page}
	l.told <- n
	return reply, nil
}

func longKey(i int) []byte { return fmt.Appendf(nil, "k%08d", i) }

// set changes what is answered from now on.
func (l *long) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// step takes so many entries, which are those from a number on.
func step(t *testing.T, it *query.KeyValueIterator[string, int64], from, n int) {
	t.Helper()
	for i := range n {
		if e, err := it.Next(); err != nil || e.Key != string(longKey(from+i)) {
			t.Fatalf("entry %d: %+v, %v", from+i, e, err)
		}
	}
}

// The second page is asked for when the first has come, and counts for the Tracker when it is delivered.
func TestScanReadsAhead(t *testing.T) {
	l := newLong()
	var at query.Tracker
	it := query.Iterate(t.Context(), l, counts, query.Everything[string](), query.Track(&at))
	defer it.Close()
	step(t, it, 0, 1)
	if one, two := <-l.told, <-l.told; one != 1 || two != 2 {
		t.Fatal(one, two)
	}
	lines := record.TopicPartition{Topic: "lines"}
	if p := at.Position()[lines]; p != 1 {
		t.Errorf("position %d of a page that was not delivered", p)
	}
	step(t, it, 1, 3*longPage)
	if p := at.Position()[lines]; p != 4 {
		t.Errorf("position %d on the fourth page", p)
	}
}

// A failure of a page that was read ahead is nobody's: the question is asked again when the page is needed.
func TestFailureAheadIsAskedAgain(t *testing.T) {
	l := newLong()
	l.answer = func(_ context.Context, n int) *query.Failure {
		if n == 2 {
			return query.New(query.Overloaded, "counts", 0)
		}
		return nil
	}
	it := query.Iterate(t.Context(), l, counts, query.Everything[string]())
	defer it.Close()
	step(t, it, 0, 2*longPage)
}

// A lease that ends while a page is there already ends the scan at the very next entry, with the last key delivered.
func TestPageAheadIsValidated(t *testing.T) {
	l := newLong()
	it := query.Iterate(t.Context(), l, counts, query.Everything[string]())
	step(t, it, 0, longPage+1)
	for range 3 {
		<-l.told
	}
	l.set(func() { l.lease++ })
	l.published.Add(1)
	_, err := it.Next()
	var f *query.Failure
	if !errors.As(err, &f) || f.Kind != query.StateStoreMigrated || string(f.LastKey) != string(longKey(longPage)) {
		t.Fatal(err)
	}
	rest := 0
	for e, err := range query.All(t.Context(), l, counts, f.Resume()) {
		if err != nil || e.Key != string(longKey(longPage+1+rest)) {
			t.Fatal(e, err)
		}
		if rest++; rest == longPage+5 {
			break
		}
	}
}

// Who leaves a scan ends the question that is under way for it.
func TestLeftScanAsksNoMore(t *testing.T) {
	leave := map[string]func(*long){
		"break": func(l *long) {
			for _, err := range query.All(t.Context(), l, counts) {
				if err != nil {
					t.Error(err)
				}
				break
			}
		},
		"Close": func(l *long) {
			it := query.Iterate(t.Context(), l, counts, query.Everything[string]())
			step(t, it, 0, 1)
			it.Close()
		},
	}
	for name, f := range leave {
		l := newLong()
		l.answer = func(ctx context.Context, n int) *query.Failure {
			if n > 1 {
				<-ctx.Done()
				l.ended <- n
			}
			return nil
		}
		f(l)
		if n := <-l.ended; n != 2 {
			t.Error(name, n)
		}
	}
}
