package transaction_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts of testdata anew")

// story is a machine, and what its script refers to without saying it: the clock, the interval, the batches by name.
type story struct {
	t        *testing.T
	m        *transaction.Machine
	now      time.Time
	interval uint64
	batches  map[string]*transaction.Batch
	names    map[*transaction.Batch]string
	asked    transaction.Effect
	pid      int64
	epoch    int16
	out      strings.Builder
}

func newStory(t *testing.T, transactional bool) *story {
	return &story{t: t, now: time.Unix(1000, 0), m: transaction.New(settings(transactional)), batches: map[string]*transaction.Batch{}, names: map[*transaction.Batch]string{}}
}

// TestStories plays testdata/*.txt. A line that begins with ">" is an event; the lines after it are its effects and the state.
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
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Fatalf("-want +got\n%s", diff)
			}
		})
	}
}

func play(t *testing.T, script string) string {
	s := newStory(t, !strings.Contains(script, "# idempotent"))
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "#") || line == "\n" {
			s.out.WriteString(line)
		}
		if strings.HasPrefix(line, ">") {
			s.out.WriteString(line)
			s.show(s.event(strings.Fields(line[1:])))
			fmt.Fprintf(&s.out, "  = %s\n", s.m.State())
		}
	}
	return s.out.String()
}

func (s *story) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *story) code(text string) int16 {
	switch text {
	case "no-answer":
		return transaction.Transport
	case "not-sent":
		return transaction.NotSent
	}
	return int16(s.number(text))
}

func (s *story) partition(text string) record.TopicPartition {
	return record.TopicPartition{Topic: "t", Partition: int32(s.number(text))}
}

func (s *story) token(text string) uint64 { return uint64(s.number(text)) }

// event plays one line.
func (s *story) event(w []string) []transaction.Effect {
	switch w[0] {
	case "start":
		return s.m.Tick(s.now)
	case "after":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
		return s.m.Tick(s.now)
	case "touch":
		return s.m.Touch(s.now, s.partition(w[1]), s.interval)
	case "put":
		return s.put(w, s.interval)
	case "amend":
		return s.put(w, s.interval-1)
	case "flush":
		s.interval++
		return s.m.Flush(s.now, s.token(w[1]), s.interval-1)
	case "flush-again":
		return s.m.Flush(s.now, s.token(w[1]), s.interval-1)
	case "commit":
		return s.commit(w)
	case "abort":
		s.interval++
		return s.m.Abort(s.now, s.token(w[1]), s.interval)
	case "send":
		s.send()
		return nil
	case "no-leader":
		return s.m.Failed(s.now, []transaction.Failure{{Batch: s.batches[w[1]], Code: 5}})
	case "produced":
		return s.produced(w)
	case "answer":
		return s.answer(w[1:])
	}
	s.t.Fatalf("no such event: %v", w)
	return nil
}

// put is "put NAME PARTITION RECORDS".
func (s *story) put(w []string, interval uint64) []transaction.Effect {
	b := &transaction.Batch{To: s.partition(w[2]), Records: int32(s.number(w[3])), Interval: interval}
	s.batches[w[1]], s.names[b] = b, w[1]
	return s.m.Put(s.now, b)
}

func (s *story) commit(w []string) []transaction.Effect {
	offsets := broker.Offsets{}
	for _, o := range w[2:] {
		p, at, _ := strings.Cut(o, ":")
		offsets[record.TopicPartition{Topic: "in", Partition: int32(s.number(p))}] = broker.Offset{At: s.number(at)}
	}
	return s.m.Commit(s.now, s.token(w[1]), offsets, broker.Membership{Group: "g", Generation: 3, MemberID: "me", InstanceID: "one"})
}

func (s *story) send() {
	for {
		ready := slices.Collect(s.m.Ready(s.now))
		if len(ready) == 0 {
			return
		}
		for _, b := range ready {
			pid, epoch := s.m.Sent(b)
			fmt.Fprintf(&s.out, "  %s to %s under %d/%d from sequence %d\n", s.names[b], b.To, pid, epoch, b.Sequence())
		}
	}
}

// produced is "produced NAME CODE [BASE]".
func (s *story) produced(w []string) []transaction.Effect {
	r := transaction.Result{Code: s.code(w[2]), Base: -1}
	if len(w) > 3 {
		r.Base = s.number(w[3])
	}
	return s.m.Produced(s.now, s.batches[w[1]], r)
}

// answer is "answer CODE…": one code for the request, or P:CODE for partitions; 0 to InitProducerId gives the next epoch. "answer
// open PID EPOCH" is Describe's.
func (s *story) answer(w []string) []transaction.Effect {
	a := transaction.Answer{}
	asked := s.asked
	if asked == nil {
		s.t.Fatal("nothing was asked")
	}
	s.asked = nil
	if w[0] == "open" {
		a.Open, a.PID, a.Epoch = true, s.number(w[1]), int16(s.number(w[2]))
		return s.m.Answered(s.now, a)
	}
	for _, text := range w {
		if p, code, ok := strings.Cut(text, ":"); ok {
			if a.Codes == nil {
				a.Codes = map[record.TopicPartition]int16{}
			}
			a.Codes[s.partition(p)] = s.code(code)
			continue
		}
		a.Code = s.code(text)
	}
	switch e := asked.(type) {
	case transaction.InitProducerID:
		if a.Code == 0 {
			s.pid, s.epoch = max(e.PID, 7), s.epoch+1
			a.PID, a.Epoch = s.pid, s.epoch
		}
	case transaction.AddPartitions:
		if a.Codes == nil && a.Code == 0 {
			a.Codes = map[record.TopicPartition]int16{}
			for _, tp := range e.Partitions {
				a.Codes[tp] = 0
			}
		}
	}
	return s.m.Answered(s.now, a)
}

func (s *story) show(effects []transaction.Effect) {
	for _, e := range effects {
		fmt.Fprintf(&s.out, "  %s\n", s.describe(e))
		if r, ok := e.(transaction.Refused); ok {
			s.replace(r)
		}
	}
}

// replace gives up a batch of one record, and halves others.
func (s *story) replace(e transaction.Refused) {
	name := s.names[e.Batch]
	var parts []*transaction.Batch
	gone := []broker.Refused{{Source: e.Batch.To, Err: e.Err}}
	if n := e.Batch.Records; n > 1 && !e.Whole {
		gone = nil
		for i, records := range []int32{n / 2, n - n/2} {
			p := &transaction.Batch{To: e.Batch.To, Interval: e.Batch.Interval, Records: records}
			part := fmt.Sprintf("%s%d", name, i+1)
			s.batches[part], s.names[p] = p, part
			parts = append(parts, p)
		}
	}
	s.show(s.m.Replace(s.now, e.Batch, parts, gone))
}

func (s *story) describe(e transaction.Effect) string {
	switch e := e.(type) {
	case transaction.Deliver:
		return "deliver " + delivered(e.Event)
	case transaction.Release:
		return "release " + s.names[e.Batch]
	case transaction.Refused:
		return fmt.Sprintf("refused %s: %s, whole %t", s.names[e.Batch], class(e.Err), e.Whole)
	}
	s.asked = e
	switch e := e.(type) {
	case transaction.InitProducerID:
		return fmt.Sprintf("InitProducerId %d/%d", e.PID, e.Epoch)
	case transaction.AddPartitions:
		return fmt.Sprintf("AddPartitionsToTxn %v under %d/%d", e.Partitions, e.PID, e.Epoch)
	case transaction.AddOffsets:
		return fmt.Sprintf("AddOffsetsToTxn %s under %d/%d", e.Group, e.PID, e.Epoch)
	case transaction.TxnOffsetCommit:
		return fmt.Sprintf("TxnOffsetCommit %s of %+v under %d/%d", positions(e.Offsets), e.Of, e.PID, e.Epoch)
	case transaction.EndTxn:
		return fmt.Sprintf("EndTxn commit=%t under %d/%d", e.Commit, e.PID, e.Epoch)
	}
	return fmt.Sprintf("%T", e)
}

func class(err *broker.Error) string {
	if err == nil {
		return "ok"
	}
	return fmt.Sprintf("%s %d %s", err.Op, err.Code, err.Class)
}

func delivered(e broker.Event) string {
	switch e := e.(type) {
	case broker.Flushed:
		return fmt.Sprintf("Flushed %d, ends %v, refused %d: %s", e.Token, e.Ends, len(e.Refused), class(e.Err))
	case broker.TransactionEnded:
		return fmt.Sprintf("TransactionEnded %d: %s", e.Token, class(e.Err))
	case broker.TransactionAborted:
		return fmt.Sprintf("TransactionAborted %d: %s", e.Token, class(e.Err))
	}
	return fmt.Sprintf("%T", e)
}

func positions(o broker.Offsets) string {
	var b []string
	for _, tp := range slices.SortedFunc(maps.Keys(o), record.TopicPartition.Compare) {
		b = append(b, fmt.Sprintf("%s:%d", tp, o[tp].At))
	}
	return "{" + strings.Join(b, " ") + "}"
}
