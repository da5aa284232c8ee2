package thread_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/thread"
)

// recorder is every port of a loop. It does nothing but write down what it is asked, and keep the tokens and units that
// answers must carry.
type recorder struct {
	said []line
	// history is all that was ever said, and the tokens that went with it, in the order in which it was said.
	history  []string
	tokens   map[string][]uint64
	units    map[record.TaskID][]*task.Unit
	states   map[record.TaskID]*tasktest.State
	log      *tasktest.Producer
	written  map[record.TopicPartition]bool
	buffered int64
}

// line is something that was said; task is whose business it is, empty if it is the thread's.
type line struct{ task, text string }

func newRecorder() *recorder {
	return &recorder{
		tokens: map[string][]uint64{}, units: map[record.TaskID][]*task.Unit{}, states: map[record.TaskID]*tasktest.State{},
		log: tasktest.NewProducer(map[string]int32{"out": 4, "dead": 1}), written: map[record.TopicPartition]bool{},
	}
}

func (r *recorder) say(task, format string, args ...any) {
	l := line{task, fmt.Sprintf(format, args...)}
	r.said, r.history = append(r.said, l), append(r.history, l.text)
}

// take gives what was said since the last time. Tasks that are told the same one after the other are told in any order.
func (r *recorder) take() (lines []string) {
	for i := 0; i < len(r.said); {
		n := i + 1
		for r.said[i].task != "" && n < len(r.said) && r.said[n].task != "" {
			n++
		}
		slices.SortStableFunc(r.said[i:n], func(a, b line) int { return cmp.Compare(a.task, b.task) })
		i = n
	}
	for _, l := range r.said {
		lines = append(lines, l.text)
	}
	r.said = nil
	return lines
}

func (r *recorder) asked(what string, token uint64) {
	r.tokens[what] = append(r.tokens[what], token)
	r.history = append(r.history, fmt.Sprint(token))
}

// last is the token of the last request, or with the word "former" the one before it.
func (r *recorder) last(what string, words []string) uint64 {
	back := 1
	if slices.Contains(words, "former") {
		back = 2
	}
	if n := len(r.tokens[what]); n >= back {
		return r.tokens[what][n-back]
	}
	r.say("", "(nobody has asked for that)")
	return math.MaxUint64
}

func (r *recorder) unit(id record.TaskID, former bool) *task.Unit {
	n := len(r.units[id])
	if former {
		n--
	}
	if n < 1 {
		r.say("", "(nobody has asked for that)")
		return &task.Unit{}
	}
	return r.units[id][n-1]
}

func (r *recorder) state(id record.TaskID) *tasktest.State {
	if r.states[id] == nil {
		r.states[id] = tasktest.NewState(1)
	}
	return r.states[id]
}

func (r *recorder) ends() map[record.TopicPartition]int64 {
	ends := map[record.TopicPartition]int64{}
	for tp := range r.written {
		ends[tp] = int64(len(r.log.Log[tp]))
	}
	clear(r.written)
	return ends
}

func positions(o broker.Offsets) string {
	var b []string
	for _, tp := range slices.SortedFunc(maps.Keys(o), record.TopicPartition.Compare) {
		text := fmt.Sprintf("%s:%d", tp, o[tp].At)
		if m, ok := task.ParseMetadata(o[tp].Metadata); ok {
			text += fmt.Sprintf("(time %d", m.PartitionTime)
			if m.TransactionalID != "" {
				text += fmt.Sprintf(", %s/%d", m.TransactionalID, m.Transaction)
			}
			text += ")"
		}
		b = append(b, text)
	}
	return "{" + strings.Join(b, " ") + "}"
}

// Released implements thread.Group.
func (r *recorder) Released(generation int32, tps []record.TopicPartition) {
	r.say("", "group: released %v of generation %d", tps, generation)
}

// Commit implements thread.Group.
func (r *recorder) Commit(token uint64, offsets broker.Offsets) {
	r.asked("commit", token)
	r.say("", "group: commit %s", positions(offsets))
}

// CommittedOffsets implements thread.Group.
func (r *recorder) CommittedOffsets(token uint64, tps []record.TopicPartition, stable bool) {
	r.asked(fmt.Sprint("offsets ", tps), token)
	how := map[bool]string{true: "stable ", false: ""}[stable]
	r.say(taskName(tps[0]), "group: %soffsets of %v", how, tps)
}

func taskName(tp record.TopicPartition) string {
	return record.TaskID{Partition: tp.Partition}.String()
}

// Rejoin implements thread.Group.
func (r *recorder) Rejoin(reason string) { r.say("", "group: rejoin, %s", reason) }

type recordedFetcher struct{ *recorder }

// Start implements thread.Fetcher.
func (r recordedFetcher) Start(tp record.TopicPartition, at int64) {
	r.say(taskName(tp), "fetcher: %s from %d", tp, at)
}

// Stop implements thread.Fetcher.
func (r recordedFetcher) Stop(tps ...record.TopicPartition) {
	r.say(taskName(tps[0]), "fetcher: stop %v", tps)
}

// Credit implements thread.Fetcher.
func (r recordedFetcher) Credit(tp record.TopicPartition, bytes int) {
	r.say(taskName(tp), "fetcher: credit %s %d", tp, bytes)
}

type recordedProducer struct{ *recorder }

// Append implements thread.Producer.
func (r recordedProducer) Append(tp record.TopicPartition, o *record.Raw) error {
	r.written[tp] = true
	r.say("", "producer: %s %s=%s", tp, o.Key, count(o.Value))
	return r.log.Append(tp, o)
}

// Partitions implements thread.Producer.
func (r recordedProducer) Partitions(topic string) (int32, error) { return r.log.Partitions(topic) }

// Tick implements thread.Producer.
func (r recordedProducer) Tick(time.Time) time.Time { return time.Time{} }

// Buffered implements thread.Producer.
func (r recordedProducer) Buffered() int64 { return r.buffered }

// Flush implements thread.Producer.
func (r recordedProducer) Flush(token uint64) {
	r.asked("flush", token)
	r.say("", "producer: flush")
}

// Amend implements thread.Producer.
func (r recordedProducer) Amend(token uint64, records []broker.Outgoing) {
	r.asked("flush", token)
	for _, o := range records {
		r.say("", "producer: amend with %s %s", o.To, o.Record.Key)
	}
}

// Commit implements thread.Producer.
func (r recordedProducer) Commit(token uint64, offsets broker.Offsets, of broker.Membership) {
	r.asked("commit", token)
	r.say("", "producer: commit %s of generation %d as %s", positions(offsets), of.Generation, of.MemberID)
}

// Abort implements thread.Producer.
func (r recordedProducer) Abort(token uint64) {
	r.asked("abort", token)
	clear(r.written)
	r.say("", "producer: abort")
}

// Fence implements thread.Producer.
func (r recordedProducer) Fence(token uint64, id string) {
	r.asked("fence "+id, token)
	r.say("", "producer: fence %s", id)
}

type recordedPositions struct{ *recorder }

// Resolve implements thread.Positions.
func (r recordedPositions) Resolve(token uint64, tps []record.TopicPartition) {
	r.asked(fmt.Sprint("resolve ", tps), token)
	r.say(taskName(tps[0]), "positions: resolve %v", tps)
}

type recordedStates struct{ *recorder }

// Open implements thread.States.
func (r recordedStates) Open(id record.TaskID, _ uint64) { r.say(id.String(), "states: open %s", id) }

// Apply implements thread.States.
func (r recordedStates) Apply(id record.TaskID, _ uint64, u *task.Unit, ends map[record.TopicPartition]int64) {
	r.units[id] = append(r.units[id], u)
	var writes []string
	for _, w := range u.Writes {
		writes = append(writes, fmt.Sprintf("%s=%s", w.Key, count(w.Value)))
	}
	upTo := ""
	if end, ok := ends[changelog(id.Partition)]; ok {
		upTo = fmt.Sprintf(", changelog up to %d", end)
	}
	r.say(id.String(), "states: apply %s [%s]%s", id, strings.Join(writes, " "), upTo)
}

// Replay implements thread.States.
func (r recordedStates) Replay(id record.TaskID, _ uint64) {
	r.say(id.String(), "states: replay %s", id)
}

// Close implements thread.States.
func (r recordedStates) Close(id record.TaskID, _ uint64) {
	r.say(id.String(), "states: close %s", id)
}

type recordedWatcher struct{ *recorder }

// Became implements thread.Watcher.
func (r recordedWatcher) Became(s lifecycle.ThreadStatus) {
	cause := ""
	if s.Cause != nil {
		cause = ", because of " + s.Cause.Error()
	}
	r.say("", "= %s, epoch %d%s", s.State, s.Epoch, cause)
}

// Running implements thread.Watcher.
func (r recordedWatcher) Running(id record.TaskID, at broker.Offsets) {
	r.say(id.String(), "running %s at %s", id, positions(at))
}

// Gone implements thread.Watcher.
func (r recordedWatcher) Gone(id record.TaskID) { r.say(id.String(), "gone %s", id) }

// Quarantined implements thread.QuarantineWatcher.
func (r recordedWatcher) Quarantined(id record.TaskID, q *thread.Quarantine) {
	if q == nil {
		r.say("", "quarantine of %s ends", id)
		return
	}
	r.say("", "quarantine of %s: %s@%d failed %d times, next in %s", id, q.Source, q.Offset, q.Failures, q.Retry.Sub(start))
}

// Assignment implements thread.Watcher.
func (r recordedWatcher) Assignment(_ string, data []byte) (more bool, live []string) {
	rest, more := strings.CutPrefix(string(data), "more,")
	return more, strings.Split(rest, ",")
}

var _ thread.Group = (*recorder)(nil)
