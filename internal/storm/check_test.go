package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

var origin = time.Unix(1000, 0)

// key0 belongs to partition 0.
var key0 = keysOf()[0][0]

// judged has a client get the answers in turn. The history is key0 at offsets 0, 2 and 4 of partition 0, and another key
// between.
func judged(answers ...answer) *checker {
	h := &history{}
	other := keysOf()[0][1]
	h.add(0, key0, other, key0)
	h.add(0, other, key0)
	c := newChecker("client", h)
	c.origin = origin
	for _, a := range answers {
		if a.key == "" {
			a.key = key0
		}
		if a.began.IsZero() {
			a.began = origin
		}
		a.limit = time.Second
		c.take(a)
	}
	return c
}

func TestRightAnswersAreTaken(t *testing.T) {
	c := judged(answer{position: 0}, answer{position: 1, count: 1}, answer{position: 2, count: 1}, answer{position: 5, count: 3}, answer{position: 5, count: 3},
		answer{position: none, count: 2}, answer{position: none, count: 3}, answer{kind: query.StateStoreMigrated, took: time.Second + grace},
		answer{kind: query.DeadlineExceeded, took: 3 * time.Second, stalled: 2 * time.Second})
	if c.lies+c.late+c.untyped > 0 || c.queries != 9 || c.values != 7 {
		t.Error(c.tally.String(), c.notes)
	}
}

func TestLiesAreFound(t *testing.T) {
	for why, answers := range map[string][]answer{
		"the count is 2, and 3 at that position": {{position: 5, count: 2}},
		"the count is 1, and 0 at that position": {{position: 0, count: 1}},
		"the log ends at 5":                      {{position: 6, count: 3}},
		"the position went back from 5":          {{position: 5, count: 3}, {position: 3, count: 2}},
		"the key belongs to partition 0":         {{position: 0, partition: 1}},
		"the count went back from 2 to 1":        {{position: none, count: 2}, {position: none, count: 1}},
		"the count is 4, and 3 were written":     {{position: none, count: 4}},
		"the log ends at 5 ":                     {{position: -7, count: 0}},
	} {
		c := judged(answers...)
		if c.lies != 1 || !strings.Contains(strings.Join(c.notes, "\n")+" ", why) || c.untyped+c.late > 0 {
			t.Errorf("%s: %s, %q", why, &c.tally, c.notes)
		}
	}
}

func TestLateAndUntypedAnswersAreFound(t *testing.T) {
	late := time.Second + grace + time.Millisecond
	c := judged(answer{kind: query.DeadlineExceeded, took: late}, answer{position: 5, count: 3, took: late}, answer{position: 5, count: 3, took: late, stalled: time.Millisecond / 2},
		answer{untyped: errors.New("cut")})
	if c.late != 3 || c.untyped != 1 || c.lies != 0 || c.values != 2 {
		t.Error(c.tally.String(), c.notes)
	}
}

// calmly is a tally of a run of 40 s with a fault at 10 s and so many answers in each second, of which some are bad.
func calmly(change func(second int, b *bucket, t *tally)) (*tally, []time.Duration) {
	t := &tally{kinds: map[query.Kind]int{query.StreamThreadRebalancing: 1}}
	for p := range t.served {
		t.served[p] = 20 * time.Second
	}
	for i := range 400 {
		b := bucket{queries: 1000, values: 1000}
		change(i/10, &b, t)
		t.queries += b.queries
		t.buckets = append(t.buckets, b)
	}
	return t, []time.Duration{10 * time.Second}
}

func TestComplaints(t *testing.T) {
	share := func(f func(b *bucket)) func(int, *bucket, *tally) { return func(_ int, b *bucket, _ *tally) { f(b) } }
	for want, change := range map[string]func(int, *bucket, *tally){
		"":                                    share(func(b *bucket) { b.values, b.overloaded, b.exceeded = 990, 9, 1 }),
		"neither a value nor a typed failure": func(_ int, _ *bucket, t *tally) { t.untyped = 1 },
		"after their deadline":                func(_ int, _ *bucket, t *tally) { t.late = 1 },
		"values were wrong":                   func(_ int, _ *bucket, t *tally) { t.lies = 1 },
		"partition 2 ended in a value":        func(_ int, _ *bucket, t *tally) { t.served[2] = 10 * time.Second },
		"nothing was tried":                   func(_ int, _ *bucket, t *tally) { clear(t.kinds) },
		"questions per second":                share(func(b *bucket) { b.queries, b.values = 199, 199 }),
		"want 99 %":                           share(func(b *bucket) { b.values = 989 }),
		"want 1 % at most":                    share(func(b *bucket) { b.overloaded = 11 }),
		"want 0.1 % at most":                  share(func(b *bucket) { b.exceeded = 2 }),
	} {
		tally, faults := calmly(change)
		got := tally.complaints(faults, time.Second, 40*time.Second, 2000)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%q: %q", want, got)
		}
	}
	tally, _ := calmly(share(func(*bucket) {}))
	if got := tally.complaints([]time.Duration{5 * time.Second, 15 * time.Second, 25 * time.Second, -9 * time.Second}, time.Second, 40*time.Second, 1); len(got) != 1 || !strings.Contains(got[0], "no question was asked") {
		t.Error(got)
	}
}

// What goes wrong in the shadow of a fault, and just before it, is not held against the nodes.
func TestTheShadowOfAFault(t *testing.T) {
	tally, faults := calmly(func(second int, b *bucket, _ *tally) {
		if second >= 9 && second < 25 {
			b.values, b.exceeded = 0, 500
		}
	})
	if got := tally.complaints(faults, time.Second, 40*time.Second, 2000); len(got) > 0 {
		t.Error(got)
	}
	if calm := tally.calm(faults, time.Second); calm.queries != 1000*10*(9+15) {
		t.Error(calm)
	}
}

func TestTalliesAddUp(t *testing.T) {
	var sum tally
	for _, c := range []*checker{judged(answer{position: 5, count: 3}, answer{kind: query.Overloaded, began: origin.Add(time.Second)}), judged(answer{position: 5, count: 1, began: origin.Add(span / 2)})} {
		sum.add(&c.tally)
	}
	if got := sum.String(); got != "queries=3 values=2 failures_by_kind=Overloaded:1 untyped=0 late=0 lies=1" {
		t.Error(got)
	}
	if sum.served != [partitions]time.Duration{span / 2} || len(sum.buckets) != 11 || sum.buckets[0].values != 2 || sum.buckets[10].overloaded != 1 || len(sum.notes) != 1 {
		t.Errorf("%+v, %q", sum.buckets, sum.notes)
	}
}

func TestPulseMeasuresStalls(t *testing.T) {
	p := &pulse{}
	at := func(ms int) time.Time { return origin.Add(time.Duration(ms) * time.Millisecond) }
	for _, ms := range []int{0, 5, 10, 110, 115, 120} {
		p.beat(at(ms))
	}
	for _, c := range []struct{ from, to, want int }{{0, 10, 0}, {0, 120, 100}, {50, 120, 60}, {50, 60, 10}, {110, 120, 0}, {115, 220, 100}} {
		if got := p.stalled(at(c.from), at(c.to)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// replies is a client with one answer.
type replies struct {
	reply *querypb.Reply
	err   error
}

func (r replies) Ask(context.Context, query.Question) (*querypb.Reply, error) { return r.reply, r.err }
func (r replies) Partitions(context.Context, string) (int32, error)           { return partitions, nil }

func valueAt(at int64, value []byte) *querypb.Reply {
	r := &querypb.Reply{Answer: &querypb.Reply_Value{Value: &querypb.Value{Present: true, Value: value}}}
	if at != none {
		r.Position = query.ToPositions(record.Position{{Topic: inputTopic}: at})
	}
	return r
}

// An asker makes of what its client says the answer that is checked.
func TestAnswersAreWhatTheClientSays(t *testing.T) {
	three, err := counts.ValueCodec().Encode(nil, 3)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		replies
		want    answer
		untyped bool
	}{
		"value":            {replies{valueAt(5, three), nil}, answer{count: 3, position: 5}, false},
		"no position":      {replies{valueAt(none, three), nil}, answer{count: 3, position: 0}, false},
		"failure":          {replies{nil, query.New(query.Overloaded, "counts", 0)}, answer{kind: query.Overloaded, position: none}, false},
		"failure in reply": {replies{query.ToReply(query.New(query.StateStoreMigrated, "counts", 0)), nil}, answer{kind: query.StateStoreMigrated, position: none}, false},
		"untyped":          {replies{nil, fmt.Errorf("%w: cut", errUntyped)}, answer{position: none}, true},
	} {
		a := &asker{client: keeping{Client: c.replies}, limit: time.Second, pulse: &pulse{}}
		got := a.ask(0, key0)
		if got.count != c.want.count || got.position != c.want.position || got.kind != c.want.kind || (got.untyped != nil) != c.untyped {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestPagesAreRead(t *testing.T) {
	reply, err := page(200, []byte(`{"found":true,"key":"k","value":"7","partition":2}`))
	if err != nil || reply.Partition != 2 || position(reply) != none {
		t.Fatal(reply, err)
	}
	if n, err := counts.ValueCodec().Decode(reply.GetValue().Value); n != 7 || err != nil {
		t.Error(n, err)
	}
	if reply, err := page(404, []byte(`{"found":false,"key":"k","partition":2}`)); err != nil || reply.GetValue().GetPresent() {
		t.Error(reply, err)
	}
	var f *query.Failure
	_, err = page(421, []byte(`{"type":"urn:millrace:failure:StateStoreMigrated","retry":"rediscover","owner":"there:1"}`))
	if !errors.As(err, &f) || f.Kind != query.StateStoreMigrated || f.Owner != "there:1" || f.Retry != query.Rediscover {
		t.Error(err)
	}
	for _, body := range []string{"", "404 page not found", `{"type":"about:blank"}`, `{"found":true,"value":"x"}`, `{"type":"urn:millrace:failure:Overloaded","retry":"later"}`} {
		if _, err := page(500, []byte(body)); !errors.Is(err, errUntyped) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestScheduleLeavesRoomForBothFaultsAndCalm(t *testing.T) {
	for _, d := range []time.Duration{20 * time.Second, time.Minute, 10 * time.Minute} {
		s, err := parse([]string{"-duration", d.String()})
		if err != nil {
			t.Fatal(err)
		}
		rebalances, kill := s.schedule()
		if len(rebalances) == 0 || rebalances[len(rebalances)-1] >= kill || kill >= d {
			t.Errorf("%s: %v, %s", d, rebalances, kill)
		}
		var all tally
		all.buckets = make([]bucket, d/span)
		for i := range all.buckets {
			all.buckets[i].queries = 1
		}
		if calm := all.calm(append(rebalances, kill), s.deadline); calm.queries < 30 {
			t.Errorf("%s: %d spans of calm", d, calm.queries)
		}
	}
}

// At any time half of the partitions are silent, and each is every other second.
func TestSilenceGoesRound(t *testing.T) {
	for i := range 4 {
		now, quiet := origin.Add(time.Duration(i)*time.Second), 0
		for p := range int32(partitions) {
			if silent(p, now) {
				quiet++
			}
			if silent(p, now) == silent(p, now.Add(time.Second)) {
				t.Errorf("partition %d does not change after %s", p, now)
			}
		}
		if quiet != partitions/2 {
			t.Errorf("%d partitions are silent", quiet)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, bad := range [][]string{{"-duration", "0s"}, {"-clients", "0"}, {"x"}, {"-no"}, {"-deadline", "0"}} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

// A browser reads what the node's own handler has; it cannot ask for anything else.
func TestBrowsersOnlyGet(t *testing.T) {
	if _, err := (browser{&member{}}).Ask(t.Context(), &querypb.Count{}); !errors.Is(err, errUntyped) {
		t.Error(err)
	}
}

// A node that was killed is no reason for an untyped answer, and one that was not is.
func TestWhatALostConnectionMeans(t *testing.T) {
	m := &member{address: "127.0.0.1:1", http: http.DefaultClient}
	q := &querypb.Get{About: &querypb.About{Store: "counts"}}
	if _, err := (browser{m}).Ask(t.Context(), q); !errors.Is(err, errUntyped) {
		t.Error(err)
	}
	m.down.Store(true)
	if _, err := (browser{m}).Ask(t.Context(), q); !errors.Is(err, query.ErrStreamThreadNotRunning) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (browser{m}).Ask(ended, q); !errors.Is(err, query.ErrDeadlineExceeded) {
		t.Error(err)
	}
}
