package kafka

import (
	"context"
	"reflect"
	"slices"
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
// broker.ConnectionChanged and must not block.
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
		answer, err := call(to, func(b *sarama.Broker) (*sarama.FetchResponse, error) { return b.Fetch(request) })
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
func (f *Fetcher) request(to *link) (asked []*position, r *sarama.FetchRequest, idle time.Duration) {
	r = &sarama.FetchRequest{Version: 12, MaxWaitTime: int32(f.cfg.MaxWait.Milliseconds()), MinBytes: 1, MaxBytes: answerBytes, SessionEpoch: -1}
	if f.cfg.ReadCommitted {
		r.Isolation = sarama.ReadCommitted
	}
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
			r.MaxWaitTime = min(r.MaxWaitTime, max(1, int32(p.retryAt.Sub(now).Milliseconds())))
			continue
		}
		if p.credit < f.enough() {
			if p.dry.IsZero() {
				p.dry = now
			}
			if now.Sub(p.dry) < time.Second {
				r.MaxWaitTime = min(r.MaxWaitTime, 10)
			}
			continue
		}
		p.dry = time.Time{}
		size := min(f.cfg.PartitionBytes, max(int(float64(p.credit)/p.growth), leastAsked))
		asked = append(asked, &position{tp: tp, next: p.next, asked: size})
		r.AddBlock(tp.Topic, tp.Partition, p.next, int32(size), l.epoch)
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
func (f *Fetcher) onAnswer(asked []*position, answer *sarama.FetchResponse) {
	var failed []*position
	defer func() {
		for _, p := range failed {
			f.onError(p, answer.GetBlock(p.tp.Topic, p.tp.Partition))
		}
	}()
	f.order.Lock()
	defer f.order.Unlock()
	var batches []broker.Batch
	for _, p := range asked {
		block := answer.GetBlock(p.tp.Topic, p.tp.Partition)
		if block == nil {
			continue
		}
		if block.Err != sarama.ErrNoError {
			failed = append(failed, p) // may ask the cluster: after the batches are out
			continue
		}
		b := decodeBlock(p.tp, p.next, block, f.cfg.ReadCommitted)
		if f.advance(p, &b) {
			batches = append(batches, b)
		}
	}
	if len(batches) > 0 {
		f.deliver(broker.Fetched{Batches: batches})
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

func (f *Fetcher) onError(p *position, block *sarama.FetchResponseBlock) {
	err := NewError(broker.OpFetch, int16(block.Err), p.tp, block.Err)
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

// decodeBlock copies nothing but the records' frames: keys and values share the answer's memory.
func decodeBlock(tp record.TopicPartition, from int64, block *sarama.FetchResponseBlock, committed bool) broker.Batch {
	b := broker.Batch{Source: tp, From: from, Next: from, HighWatermark: block.HighWaterMarkOffset, LastStable: block.LastStableOffset, LogStart: block.LogStartOffset, LeaderEpoch: -1}
	n := 0
	for _, set := range block.RecordsSet {
		if set.RecordBatch != nil {
			n += len(set.RecordBatch.Records)
		}
	}
	b.Records = make([]record.Raw, 0, n)
	aborted := newAbortedFilter(block, committed)
	for _, set := range block.RecordsSet {
		rb := set.RecordBatch
		if rb == nil || rb.PartialTrailingRecord {
			continue
		}
		if last := rb.LastOffset(); last >= b.Next {
			b.Next = last + 1
			b.LeaderEpoch = rb.PartitionLeaderEpoch
		}
		if !aborted.skips(rb) && !rb.Control {
			takeRecords(&b, rb)
		}
	}
	if b.Next == from {
		b.Next = max(from, behindEmptyBatches(block))
	}
	return b
}

func takeRecords(b *broker.Batch, rb *sarama.RecordBatch) {
	first := rb.FirstTimestamp.UnixMilli()
	for _, r := range rb.Records {
		offset := rb.FirstOffset + r.OffsetDelta
		if offset < b.From {
			continue
		}
		raw := record.Raw{Key: r.Key, Value: r.Value, Offset: offset, Timestamp: first + r.TimestampDelta.Milliseconds()}
		if rb.LogAppendTime {
			raw.Timestamp = rb.MaxTimestamp.UnixMilli()
		}
		b.Bytes += len(r.Key) + len(r.Value) + recordCost
		for _, h := range r.Headers {
			raw.Headers = append(raw.Headers, record.Header{Key: string(h.Key), Value: h.Value})
			b.Bytes += len(h.Key) + len(h.Value) + headerCost
		}
		b.Records = append(b.Records, raw)
	}
}

// behindEmptyBatches is the offset after an answer in which every batch has lost all its records. Compaction keeps such
// batches (they hold a producer's last sequence), and the client library leaves them out of the answer's records: a reader
// that went by those would ask for the same offset for ever. The library knows the offset but does not export it, so it is
// read by its name; a test notices when that name changes.
func behindEmptyBatches(block *sarama.FetchResponseBlock) int64 {
	next := reflect.ValueOf(block).Elem().FieldByName("recordsNextOffset")
	if !next.IsValid() || next.Kind() != reflect.Pointer || next.IsNil() || block.Partial {
		return -1
	}
	return next.Elem().Int()
}

// abortedFilter leaves out what a read_committed reader must not see: batches of a producer between the first offset of
// its aborted transaction and the abort's control record.
type abortedFilter struct {
	pending map[int64][]int64 // producer id → first offsets, ascending
	open    map[int64]bool
	on      bool
}

func newAbortedFilter(block *sarama.FetchResponseBlock, committed bool) *abortedFilter {
	f := &abortedFilter{on: committed}
	if committed && len(block.AbortedTransactions) > 0 {
		f.pending, f.open = map[int64][]int64{}, map[int64]bool{}
		for _, a := range block.AbortedTransactions {
			f.pending[a.ProducerID] = append(f.pending[a.ProducerID], a.FirstOffset)
		}
		for _, firsts := range f.pending {
			slices.Sort(firsts) // a broker lists them by where they end
		}
	}
	return f
}

func (f *abortedFilter) skips(rb *sarama.RecordBatch) bool {
	if !f.on || f.pending == nil || !rb.IsTransactional {
		return false
	}
	if firsts := f.pending[rb.ProducerID]; len(firsts) > 0 && firsts[0] <= rb.LastOffset() {
		f.pending[rb.ProducerID] = firsts[1:]
		f.open[rb.ProducerID] = true
	}
	if !rb.Control {
		return f.open[rb.ProducerID]
	}
	// A control record's key is version (2 bytes) and type (2 bytes): 0 aborts.
	if len(rb.Records) > 0 && len(rb.Records[0].Key) >= 4 && rb.Records[0].Key[3] == 0 {
		delete(f.open, rb.ProducerID)
	}
	return true
}
