package thread_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

var rewrite = flag.Bool("rewrite", false, "write what happened into testdata/*.txt; commit it only if you understand the difference")

// story is a slot and its present incarnation, driven by a script: a line that begins with ">" is an event, after which
// the loop steps until it has nothing to do; one that begins with "&" only puts the event into the inbox, so that the
// next step finds both. The lines after an event are what the loop said to its ports, and what it published.
type story struct {
	t     *testing.T
	ports *recorder
	slot  *thread.Slot
	loop  *thread.Loop
	cfg   thread.Config
	epoch uint64
	now   time.Time
	gen   int32
	// poison are words that fail; each fails once.
	poison []string
}

// TestStories plays testdata/*.txt.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n"))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff != "" {
				t.Fatalf("-want +got\n%s", diff)
			}
		})
	}
}

// TestSameEventsSameCalls: a loop that is told the same says the same in the same order, or nothing could be replayed.
func TestSameEventsSameCalls(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var first []string
		for range 5 {
			s, _ := tell(t, string(text))
			if first == nil {
				first = s.ports.history
			}
			if diff := cmp.Diff(first, s.ports.history); diff != "" {
				t.Fatalf("%s: %s", file, diff)
			}
		}
	}
}

func play(t *testing.T, script string) string {
	_, text := tell(t, script)
	return text
}

// tell plays a script and gives it back with what has happened.
func tell(t *testing.T, script string) (*story, string) {
	s := &story{t: t, now: start, gen: 1}
	var b strings.Builder
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if len(words) == 0 || !strings.Contains("#>&", words[0]) {
			continue
		}
		b.WriteString(line)
		if words[0] == "#" {
			continue
		}
		s.event(words[1], words[2:])
		if words[0] == ">" {
			s.run()
			for _, said := range s.ports.take() {
				b.WriteString("  " + said + "\n")
			}
		}
	}
	return s, b.String()
}

// run steps until there is nothing to do. An error ends the incarnation, as the thread's actor does it.
func (s *story) run() {
	for range 20 {
		if s.loop == nil {
			return
		}
		next, err := s.loop.Step(s.now)
		if err != nil {
			s.ports.say("", "! %v", err)
			if !errors.Is(err, thread.ErrDone) {
				s.loop.Fail(s.now, err)
			}
			s.loop = nil
			return
		}
		if next.After(s.now) {
			return
		}
	}
	s.t.Fatal("the loop is busy for ever")
}

func (s *story) put(e broker.Event) { s.slot.Inbox.Put(e) }

// named gives the value of name=value among the words.
func named(words []string, name, otherwise string) string {
	for _, w := range words {
		if v, ok := strings.CutPrefix(w, name+"="); ok {
			return v
		}
	}
	return otherwise
}

func (s *story) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// tps reads "0,1" or "two-0": partitions of in, or of another topic.
func (s *story) tps(text string) (tps []record.TopicPartition) {
	for w := range strings.SplitSeq(text, ",") {
		if other, ok := strings.CutPrefix(w, "two-"); ok {
			tps = append(tps, two(int32(s.number(other))))
		} else if w != "none" {
			tps = append(tps, in(int32(s.number(w))))
		}
	}
	return tps
}

func (s *story) id(text string) record.TaskID { return record.TaskID{Partition: int32(s.number(text))} }

// failure reads "code/Class" of error=…; nil if there is none.
func (s *story) failure(words []string, op broker.Op) *broker.Error {
	text := named(words, "error", "")
	if text == "" {
		return nil
	}
	code, class, _ := strings.Cut(text, "/")
	for c := broker.Retry; c <= broker.Ignore; c++ {
		if c.String() == class {
			return &broker.Error{Op: op, Code: int16(s.number(code)), Class: c}
		}
	}
	s.t.Fatal("no such class: ", class)
	return nil
}

// event plays one line.
func (s *story) event(verb string, w []string) {
	if s.slot == nil && verb != "slot" {
		s.t.Fatal("the first event is a slot")
	}
	switch verb {
	case "slot": // exactly-once topics=in,two uncommitted=BYTES refused=skip quarantine attempts=N
		s.open(w)
	case "start": // the next incarnation
		s.begin()
	case "after":
		d, err := time.ParseDuration(w[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
	case "stop":
		s.loop.Stop()
	case "poison": // these words fail, once each
		s.poison = append(s.poison, w...)
	case "buffered": // so much waits for the producer
		s.ports.buffered = s.number(w[0])
	case "order": // 0 again|skip|bury
		remedy := map[string]thread.Remedy{"again": thread.TryAgain, "skip": thread.SkipIt, "bury": thread.BuryIt}[w[1]]
		s.put(thread.Order{Task: s.id(w[0]), Remedy: remedy, Done: func(err error) { s.ports.say("", "order for %s: %s", w[0], errorText(err)) }})
	case "deadline":
		next, err := s.loop.Step(s.now)
		s.ports.say("", "in %s %s", next.Sub(s.now), errorText(err))
	default:
		if !s.groupEvent(verb, w) && !s.producerEvent(verb, w) && !s.stateEvent(verb, w) {
			s.t.Fatalf("no such event: %s %v", verb, w)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (s *story) open(w []string) {
	s.ports = newRecorder()
	s.slot = thread.NewSlot("thread-1")
	s.slot.Group, s.slot.Fetcher, s.slot.Producer = s.ports, recordedFetcher{s.ports}, recordedProducer{s.ports}
	s.slot.Member.Group = "app"
	if slices.Contains(w, "exactly-once") {
		s.slot.TransactionalID = "app-me"
	}
	refuse := map[string]topology.Response{"fail": topology.Fail, "skip": topology.Skip, "dead-letter": topology.DeadLetter}[named(w, "refused", "fail")]
	s.cfg = config(s.slot, strings.Split(named(w, "topics", "in"), ","), refuse, func(r *record.Raw) error {
		if i := slices.Index(s.poison, string(r.Key)); i >= 0 {
			s.poison = slices.Delete(s.poison, i, i+1)
			return fmt.Errorf("cannot stand %q", r.Key)
		}
		return nil
	})
	if slices.Contains(w, "quarantine") {
		s.cfg.Quarantine = thread.QuarantinePolicy{First: 100 * time.Millisecond, Cap: time.Second, Attempts: int(s.number(named(w, "attempts", "0")))}
	}
	s.cfg.UncommittedBytes = s.number(named(w, "uncommitted", "1000000"))
	s.cfg.Positions, s.cfg.States, s.cfg.Watcher = recordedPositions{s.ports}, recordedStates{s.ports}, recordedWatcher{s.ports}
	s.begin()
}

func (s *story) begin() {
	s.epoch++
	s.cfg.Epoch = s.epoch
	s.loop = thread.NewLoop(s.cfg)
	s.loop.Start(s.now)
}

func (s *story) groupEvent(verb string, w []string) bool {
	switch verb {
	case "assigned": // 0,1 gen=N live=id,id more
		s.gen = int32(s.number(named(w, "gen", strconv.Itoa(int(s.gen)))))
		live := named(w, "live", "app-me")
		if slices.Contains(w, "more") {
			live = "more," + live
		}
		s.put(broker.Assigned{Generation: s.gen, MemberID: named(w, "as", "me"), Partitions: s.tps(w[0]), UserData: []byte(live)})
	case "revoking":
		s.put(broker.Revoking{Generation: s.gen, Partitions: s.tps(w[0])})
	case "lost":
		s.put(broker.Lost{Partitions: s.tps(w[0]), Cause: &broker.Error{Op: broker.OpHeartbeat, Code: 25, Class: broker.Migrated}})
	case "rejoining":
		s.put(broker.Rejoining{Reason: "the group is rebalancing"})
	case "group-failed":
		s.put(broker.GroupFailed{Err: s.failure(w, broker.OpJoinGroup)})
	case "offsets": // 0,two-0 at=N by=id/number, the answer to the last question about these partitions
		s.offsets(w)
	case "committed":
		s.put(broker.OffsetsCommitted{Token: s.ports.last("commit", w), Err: s.failure(w, broker.OpOffsetCommit)})
	case "fetched":
		s.fetched(w)
	case "fetch-failed": // 0 at=N error=…
		tp := s.tps(w[0])[0]
		s.put(broker.FetchFailed{Source: tp, Position: s.number(named(w, "at", "0")), LogStart: 50, HighWatermark: 60, Err: s.failure(w, broker.OpFetch)})
	case "reset": // 0 at=N, the answer of the reset policy
		tps := s.tps(w[0])
		at := map[record.TopicPartition]int64{}
		for _, tp := range tps {
			at[tp] = s.number(named(w, "at", "0"))
		}
		s.put(thread.PositionsResolved{Token: s.ports.last(fmt.Sprint("resolve ", tps), w), At: at})
	default:
		return false
	}
	return true
}

func (s *story) offsets(w []string) {
	tps := s.tps(w[0])
	e := broker.OffsetsFetched{Token: s.ports.last(fmt.Sprint("offsets ", tps), w), Err: s.failure(w, broker.OpOffsetFetch)}
	if e.Err == nil {
		e.Offsets = broker.Offsets{}
		id, number, _ := strings.Cut(named(w, "by", ""), "/")
		metadata := ""
		if id != "" {
			metadata = "1|7|" + number + "|" + id
		}
		for _, tp := range tps {
			e.Offsets[tp] = broker.Offset{At: s.number(named(w, "at", "-1")), Metadata: metadata}
		}
	}
	s.put(e)
}

// fetched reads: partition, the position that was asked for, then words. A word is a record; no word, a marker.
func (s *story) fetched(w []string) {
	b := broker.Batch{Source: s.tps(w[0])[0], From: s.number(w[1]), Bytes: 100}
	for i, word := range w[2:] {
		b.Records = append(b.Records, record.Raw{Key: []byte(word), Offset: b.From + int64(i), Timestamp: b.From + int64(i)})
	}
	b.Next = b.From + max(1, int64(len(b.Records)))
	b.HighWatermark, b.LastStable = b.Next, b.Next
	s.put(broker.Fetched{Batches: []broker.Batch{b}})
}

func (s *story) producerEvent(verb string, w []string) bool {
	switch verb {
	case "flushed":
		e := broker.Flushed{Token: s.ports.last("flush", w), Err: s.failure(w, broker.OpProduce)}
		if e.Err == nil {
			e.Ends = s.ports.ends()
		}
		if word := named(w, "refused", ""); word != "" {
			source := record.TopicPartition{Topic: named(w, "of", "out")}
			err := &broker.Error{Op: broker.OpProduce, Code: 10, Class: broker.Record, Source: source}
			e.Refused = append(e.Refused, broker.Refused{Source: source, Record: record.Raw{Key: []byte(word)}, Err: err})
		}
		s.put(e)
	case "ended": // the answer to Producer.Commit
		s.put(broker.TransactionEnded{Token: s.ports.last("commit", w), Err: s.failure(w, broker.Op(named(w, "op", string(broker.OpEndTxn))))})
	case "aborted":
		s.put(broker.TransactionAborted{Token: s.ports.last("abort", w), Err: s.failure(w, broker.OpInitProducerID)})
	case "fenced":
		s.put(broker.Fenced{Token: s.ports.last("fence "+w[0], w), Err: s.failure(w, broker.OpInitProducerID)})
	default:
		return false
	}
	return true
}

// stateEvent plays an answer of States; epoch= makes it one to a former incarnation.
func (s *story) stateEvent(verb string, w []string) bool {
	epoch := uint64(s.number(named(w, "epoch", strconv.Itoa(int(s.epoch)))))
	var err error
	if text := named(w, "because", ""); text != "" {
		err = errors.New(text)
	}
	switch verb {
	case "ready":
		s.put(thread.StateReady{Task: s.id(w[0]), Epoch: epoch, State: s.ports.state(s.id(w[0]))})
	case "state-failed":
		s.put(thread.StateFailed{Task: s.id(w[0]), Epoch: epoch, Err: err})
	case "applied":
		u := s.ports.unit(s.id(w[0]), slices.Contains(w, "former"))
		if err == nil {
			s.ports.state(s.id(w[0])).Apply(u)
		}
		s.put(thread.UnitApplied{Task: s.id(w[0]), Epoch: epoch, Unit: u, Err: err})
	case "closed":
		s.put(thread.StateClosed{Task: s.id(w[0]), Epoch: epoch, Err: err})
	case "waits":
		s.put(thread.StateWaits{Task: s.id(w[0]), Epoch: epoch, Err: err})
	case "serving":
		s.put(thread.StoresServing{Task: s.id(w[0]), Epoch: epoch})
	default:
		return false
	}
	return true
}
