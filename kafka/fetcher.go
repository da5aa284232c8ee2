package kafka

import (
	"context"
	"sync"
	"time"
	"unsafe"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// FetcherConfig is how a Fetcher reads. Zero values mean the defaults in brackets.
type FetcherConfig struct {
	Config Config
	// ReadCommitted is isolation.level=read_committed: records of aborted transactions are left out, and nothing is read
	// behind the first open one. Batch.LastStable is how far such a reader gets for now, and what its lag counts to; a
	// reader that is not set so gets to Batch.HighWatermark. Control records are left out in both, and Batch.Next counts them.
	ReadCommitted bool
	// MaxWait is how long a broker may wait for records [100 ms]. A partition that is started meanwhile waits with it.
	MaxWait time.Duration
	// PartitionBytes is what one answer brings of a partition at most, as the broker stores it [1 MiB]. Credit is what may
	// be delivered and not given back [4 MiB], as it is in memory: see Batch.Bytes. One batch of the log, which is never cut,
	// may exceed it.
	PartitionBytes, Credit int
}

// Fetcher reads partitions, on one goroutine per broker that fetches and decodes one answer ahead of its consumer.
//
// The mutex protects the positions: the owner starts, stops and credits, the brokers' goroutines advance.
type Fetcher struct {
	cfg     FetcherConfig
	cluster *cluster
	deliver func(broker.Event)
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	// order is held from the moment a position moves until its batch is delivered: while a leader moves, two brokers'
	// goroutines read one partition, and a later batch that overtook an earlier one would be dropped as stale by the owner
	// and never be read again.
	order   sync.Mutex
	mu      sync.Mutex
	reading map[record.TopicPartition]*position
	readers map[*link]chan struct{} // wakes the broker's goroutine
	look    chan struct{}
}

// position is where the reader of one partition stands. A seek makes another one, so that an answer to an older request is
// told from the newer reader.
type position struct {
	tp     record.TopicPartition
	next   int64
	credit int
	// growth is how many bytes of memory came of a byte that was asked for, at least 1. Records of a few bytes have frames
	// of recordCost, and compressed ones grow further; without it an answer that was asked for on a little credit would
	// exceed that many times over.
	growth float64
	asked  int       // bytes, in the request that is under way
	dry    time.Time // since when there is too little credit; zero if there is enough
	// toldHigh and toldStable are the ends that the consumer last heard of; a merge of partitions waits for one that is
	// not known to be caught up (KIP-695), so a change of them is delivered without records too.
	toldHigh, toldStable int64
	retryAt              time.Time
	tries                int
}

// NewFetcher returns a running fetcher that reads nothing yet. deliver gets broker.Fetched, broker.FetchFailed and
// broker.ConnectionChanged and must not block. Its error says what of the authentication in cfg cannot work.
func NewFetcher(cfg FetcherConfig, deliver func(broker.Event)) (*Fetcher, error) {
	if err := cfg.Config.validate(); err != nil {
		return nil, err
	}
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = 100 * time.Millisecond
	}
	if cfg.PartitionBytes <= 0 {
		cfg.PartitionBytes = 1 << 20
	}
	if cfg.Credit <= 0 {
		cfg.Credit = 4 << 20
	}
	f := &Fetcher{cfg: cfg, deliver: deliver, reading: map[record.TopicPartition]*position{}, readers: map[*link]chan struct{}{}, look: make(chan struct{}, 1)}
	f.cluster = newCluster(cfg.Config, "fetch", cfg.MaxWait+30*time.Second, deliver)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.wg.Add(1)
	go f.findLeaders()
	return f, nil
}

// Start reads a partition from the given offset; on one that is being read it moves the position.
func (f *Fetcher) Start(tp record.TopicPartition, at int64) {
	f.mu.Lock()
	f.reading[tp] = &position{tp: tp, next: at, credit: f.cfg.Credit, growth: firstGrowth, toldHigh: -1, toldStable: -1}
	f.mu.Unlock()
	f.nudge(tp)
}

// Stop ends reading. A batch that is being delivered may still arrive.
func (f *Fetcher) Stop(tps ...record.TopicPartition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, tp := range tps {
		delete(f.reading, tp)
	}
}

// Credit gives back bytes that were consumed.
func (f *Fetcher) Credit(tp record.TopicPartition, bytes int) {
	f.mu.Lock()
	p := f.reading[tp]
	wake := false
	if p != nil {
		wake = p.credit < f.enough()
		p.credit += bytes
		wake = wake && p.credit >= f.enough()
	}
	f.mu.Unlock()
	if wake {
		f.nudge(tp)
	}
}

// Close ends the fetcher and waits for its goroutines.
func (f *Fetcher) Close() {
	f.cancel()
	f.cluster.close()
	f.wg.Wait()
}

// nudge wakes the goroutine of the partition's leader, or the search for one.
func (f *Fetcher) nudge(tp record.TopicPartition) {
	to, _, ok := f.cluster.leaderOf(tp)
	f.mu.Lock()
	wake := f.readers[to]
	f.mu.Unlock()
	if !ok || wake == nil {
		wake = f.look
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

// findLeaders looks for leaders of partitions that have none, and starts a goroutine for each broker that leads one.
func (f *Fetcher) findLeaders() {
	defer f.wg.Done()
	for attempt := 0; f.ctx.Err() == nil; {
		topics := f.withoutLeader()
		if len(topics) == 0 {
			attempt = 0
			select {
			case <-f.look:
			case <-f.ctx.Done():
			}
			continue
		}
		_, err := f.cluster.metadata(topics)
		if err != nil || len(f.withoutLeader()) > 0 {
			attempt++
			sleep(f.ctx, backoff(attempt))
		}
	}
}

func (f *Fetcher) withoutLeader() (topics []string) {
	f.mu.Lock()
	tps := make([]record.TopicPartition, 0, len(f.reading))
	for tp := range f.reading {
		tps = append(tps, tp)
	}
	f.mu.Unlock()
	seen := map[string]bool{}
	for _, tp := range tps {
		to, _, ok := f.cluster.leaderOf(tp)
		if ok {
			f.reader(to)
		} else if !seen[tp.Topic] {
			seen[tp.Topic] = true
			topics = append(topics, tp.Topic)
		}
	}
	return topics
}

// reader makes sure that a broker has its goroutine, and wakes it.
func (f *Fetcher) reader(to *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wake := f.readers[to]
	if wake == nil && f.ctx.Err() == nil {
		wake = make(chan struct{}, 1)
		f.readers[to] = wake
		f.wg.Add(1)
		go f.read(to, wake)
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

// read is one broker's goroutine.
func (f *Fetcher) read(to *link, wake chan struct{}) {
	defer f.wg.Done()
	for attempt := 0; f.ctx.Err() == nil; {
		asked, request, wait := f.request(to)
		if len(asked) == 0 {
			timer := time.NewTimer(wait)
			select {
			case <-wake:
			case <-timer.C:
			case <-f.ctx.Done():
			}
			timer.Stop()
			continue
		}
		answer, err := request.ask(f.ctx, to)
		if err != nil {
			if f.ctx.Err() != nil {
				return
			}
			attempt++
			f.cluster.note(err)
			for _, p := range asked {
				f.cluster.forget(p.tp)
			}
			f.poke()
			sleep(f.ctx, backoff(attempt))
			continue
		}
		attempt = 0
		f.cluster.note(nil)
		f.onAnswer(asked, answer)
	}
}

func (f *Fetcher) poke() {
	select {
	case f.look <- struct{}{}:
	default:
	}
}

// enough is the credit below which a partition is not asked for: many small answers would cost more than they bring.
func (f *Fetcher) enough() int { return f.cfg.Credit / 4 }

// request asks for every partition of the broker that has credit. One that has none, or that must wait, shortens the wait,
// since it would otherwise sit behind an idle answer; but not for long, as one whose consumer has stopped for good would
// have the broker asked a hundred times a second.
func (f *Fetcher) request(to *link) (asked []*position, r *fetch, idle time.Duration) {
	r = &fetch{waitMS: int32(f.cfg.MaxWait.Milliseconds()), answerBytes: answerBytes, committed: f.cfg.ReadCommitted}
	idle = time.Minute
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for tp, p := range f.reading {
		led, l, ok := f.cluster.leaderOf(tp)
		if !ok || led != to {
			continue
		}
		if now.Before(p.retryAt) {
			idle = min(idle, p.retryAt.Sub(now))
			r.waitMS = min(r.waitMS, max(1, int32(p.retryAt.Sub(now).Milliseconds())))
			continue
		}
		if p.credit < f.enough() {
			if p.dry.IsZero() {
				p.dry = now
			}
			if now.Sub(p.dry) < time.Second {
				r.waitMS = min(r.waitMS, 10)
			}
			continue
		}
		p.dry = time.Time{}
		size := min(f.cfg.PartitionBytes, max(int(float64(p.credit)/p.growth), leastAsked))
		asked = append(asked, &position{tp: tp, next: p.next, asked: size})
		r.parts = append(r.parts, fetchPart{tp, l.epoch, p.next, int32(size)})
	}
	return asked, r, idle
}

const (
	// answerBytes bounds a whole answer. Batches of one answer share its memory, so a partition that is consumed slowly
	// keeps that of the others alive.
	answerBytes = 8 << 20
	// firstGrowth is assumed until a first full answer tells.
	firstGrowth = 16
	// leastAsked is the least that is asked for of a partition.
	leastAsked = 16 << 10
)

// onAnswer turns an answer into one event.
func (f *Fetcher) onAnswer(asked []*position, answer map[record.TopicPartition]*fetched) {
	failed := map[*position]int16{}
	batches := make([]broker.Batch, len(asked))
	for i, p := range asked {
		var err error
		switch part := answer[p.tp]; {
		case part == nil:
		case part.code != 0:
			failed[p] = part.code
		default:
			if batches[i], err = decodeBatches(p.tp, p.next, part, f.cfg.ReadCommitted); err != nil {
				failed[p] = int16(sarama.ErrInvalidMessage)
				f.cfg.Config.log().Warn("what was fetched cannot be read; it is asked for again", "partition", p.tp, "offset", p.next, "err", err)
			}
		}
	}
	f.order.Lock()
	kept := batches[:0]
	for i, p := range asked {
		if _, bad := failed[p]; !bad && answer[p.tp] != nil && f.advance(p, &batches[i]) {
			kept = append(kept, batches[i])
		}
	}
	if len(kept) > 0 {
		f.deliver(broker.Fetched{Batches: kept})
	}
	f.order.Unlock()
	for p, code := range failed { // may ask the cluster: after the batches are out
		f.onError(p, code)
	}
}

// advance moves the reader if it is still where the request asked.
func (f *Fetcher) advance(p *position, b *broker.Batch) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.reading[p.tp]
	if now == nil || now.next != p.next {
		return false
	}
	now.tries = 0
	if b.Next == p.next {
		if f.cfg.ReadCommitted && p.next > b.LastStable {
			// A broker ignores MaxWait here and answers at once: without a pause this is a busy loop.
			now.retryAt = time.Now().Add(aboveStablePause)
		}
		if b.HighWatermark == now.toldHigh && b.LastStable == now.toldStable {
			return false
		}
	}
	now.toldHigh, now.toldStable = b.HighWatermark, b.LastStable
	now.next = b.Next
	now.credit -= b.Bytes
	if b.Bytes >= p.asked/2 { // a full answer; a short one says nothing of the next
		now.growth = max(1, float64(b.Bytes)/float64(p.asked))
	}
	return true
}

func (f *Fetcher) onError(p *position, code int16) {
	err := NewError(broker.OpFetch, code, p.tp, nil)
	if err.Class == broker.Retry {
		f.later(p)
		return
	}
	failed := broker.FetchFailed{Source: p.tp, Position: p.next, Err: err}
	if err.Code == broker.CodeOffsetOutOfRange {
		// The answer itself has -1 for the range on a real broker.
		ranges := map[record.TopicPartition]Range{}
		if f.cluster.ends(f.ctx, []record.TopicPartition{p.tp}, false, ranges) != nil {
			f.later(p)
			return
		}
		r := ranges[p.tp]
		if r.Start <= p.next && p.next <= r.HighWatermark && f.later(p) <= outOfRangeTries {
			return // a replica that lags behind its leader said so
		}
		failed.LogStart, failed.HighWatermark = r.Start, r.HighWatermark
	}
	f.mu.Lock()
	now := f.reading[p.tp]
	current := now != nil && now.next == p.next
	if current {
		delete(f.reading, p.tp)
	}
	f.mu.Unlock()
	if !current {
		return
	}
	f.deliver(failed)
}

const (
	// aboveStablePause is how long a read_committed position above the last stable offset is not asked for.
	aboveStablePause = 50 * time.Millisecond
	// outOfRangeTries is how often an offset that the leader has may be refused before the partition is given up.
	outOfRangeTries = 3
)

// later has a partition looked up and asked for again after a pause. It says how often in a row that was.
func (f *Fetcher) later(p *position) (tries int) {
	f.cluster.forget(p.tp)
	f.mu.Lock()
	if now := f.reading[p.tp]; now != nil {
		now.tries++
		tries = now.tries
		now.retryAt = time.Now().Add(backoff(tries))
	}
	f.mu.Unlock()
	f.poke()
	return tries
}

// recordCost is what a record costs in memory besides its key, value and headers; headerCost what a header does.
const (
	recordCost = int(unsafe.Sizeof(record.Raw{})) + 12 // and about that many bytes of the answer
	headerCost = int(unsafe.Sizeof(record.Header{}))
)
