package task_test

import (
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
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/topology"
)

var rewrite = flag.Bool("rewrite", false, "write what happened into testdata/*.txt; commit it only if you understand the difference")

// scenario is a word count that a script drives. Each line is a command, what it printed follows indented.
type scenario struct {
	task  *task.Task
	state *tasktest.State
	out   *tasktest.Producer
	unit  *task.Unit
	at    broker.Offsets
	now   time.Time
	log   []string
}

func (s *scenario) say(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// run carries one command out. Words behind it are its arguments.
func (s *scenario) run(t *testing.T, command string, args []string) {
	switch command {
	case "task": // task idle=MS partition…
		s.create(t, args)
	case "start": // at offset 0, or where Rewind said
		s.start()
	case "add": // add partition from next high-watermark time:word…
		s.add(t, args)
	case "process": // process budget
		n, err := s.task.Process(s.now, number(t, args[0]))
		s.say("%d taken, stream time %d%s", n, task.StreamTime(s.task), because(err))
	case "wait": // wait ms
		s.now = s.now.Add(time.Duration(number(t, args[0])) * time.Millisecond)
	case "ready":
		ready, next := s.task.Ready(s.now)
		s.say("%v%s", ready, map[bool]string{false: ", ask again in " + next.Sub(s.now).String()}[next.IsZero()])
	case "credits":
		s.task.Credits(func(source record.TopicPartition, bytes int) { s.say("%s %d", source, bytes) })
	case "prepare": // prepare [transactional-id number]
		s.prepare(t, args)
	case "committed":
		s.task.Committed(s.unit)
	case "apply": // the state has it, and the task does not hear of it
		s.state.Apply(s.unit)
	case "applied":
		s.state.Apply(s.unit)
		s.task.Applied(s.unit)
	case "rewind":
		s.at = s.task.Rewind()
		s.say("%s, to %s", s.task.State(), positions(s.at))
	case "close":
		s.say("%v, %s", s.task.Close(), s.task.State())
	case "state":
		for _, e := range sortedRows(s.state) {
			s.say("%s", e)
		}
	default:
		t.Fatalf("unknown command %q", command)
	}
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func (s *scenario) create(t *testing.T, args []string) {
	idle, _ := strings.CutPrefix(args[0], "idle=")
	s.state, s.out, s.now = tasktest.NewState(1), tasktest.NewProducer(nil), now
	cfg := task.Config{
		Stores: []task.StoreConfig{{Name: "counts", Changelog: tp("changelog", 0)}}, State: s.state, Producer: s.out,
		MaxIdle: time.Duration(number(t, idle)) * time.Millisecond,
		Chain:   func(h topology.Host) (task.Chain, error) { return &bad{counter{counts: h.Store("counts")}}, nil },
	}
	for _, a := range args[1:] {
		cfg.Sources = append(cfg.Sources, source(t, a))
	}
	s.task = newTask(t, cfg)
	s.task.Restoring()
	s.at = broker.Offsets{}
	for _, source := range cfg.Sources {
		s.at[source] = broker.Offset{}
	}
}

// bad is a counter that cannot stand one word.
type bad struct{ counter }

func (b *bad) Source(string) (func(*record.Raw) error, error) {
	return func(r *record.Raw) error {
		if err := b.process(r); err != nil || string(r.Key) != "bad" {
			return err
		}
		return fmt.Errorf("cannot stand %q", r.Key)
	}, nil
}

func source(t *testing.T, s string) record.TopicPartition {
	at := strings.LastIndexByte(s, '-')
	return tp(s[:at], int32(number(t, s[at+1:])))
}

func (s *scenario) start() {
	err := s.task.Start(now, s.at)
	s.say("%s at %s%s", s.task.State(), positions(s.at), because(err))
}

func (s *scenario) add(t *testing.T, args []string) {
	b := broker.Batch{Source: source(t, args[0]), LastStable: -1, Bytes: 100}
	b.From, b.Next, b.HighWatermark = int64(number(t, args[1])), int64(number(t, args[2])), int64(number(t, args[3]))
	for i, a := range args[4:] {
		at, word, _ := strings.Cut(a, ":")
		b.Records = append(b.Records, record.Raw{Key: []byte(word), Timestamp: int64(number(t, at)), Offset: b.From + int64(i)})
	}
	if !s.task.Add(b) {
		s.say("refused")
	}
}

func (s *scenario) prepare(t *testing.T, args []string) {
	var stamp task.Stamp
	if len(args) > 0 {
		stamp = task.Stamp{TransactionalID: args[0], Number: uint64(number(t, args[1]))}
	}
	before := len(s.out.Log[tp("changelog", 0)])
	u, err := s.task.PrepareTransaction(s.now, stamp)
	if err != nil {
		s.say("%v", err)
		return
	}
	s.unit = u
	s.say("offsets %s", positions(u.Offsets))
	for _, r := range s.out.Log[tp("changelog", 0)][before:] {
		header := ""
		if p, ok := r.Headers.Last(record.PositionHeader); ok {
			position, _ := record.DecodePosition(p)
			header = fmt.Sprintf(", position %v", position)
		}
		s.say("changelog %s=%d @%d%s", r.Key, r.Value[7], r.Timestamp, header)
	}
}

func positions(at broker.Offsets) string {
	var all []string
	for source, o := range at {
		all = append(all, fmt.Sprintf("%s=%d(%s)", source, o.At, o.Metadata))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func sortedRows(s *tasktest.State) (rows []string) {
	for k, row := range s.Stores[0] {
		rows = append(rows, fmt.Sprintf("%s=%d", k, row.Value[7]))
	}
	slices.Sort(rows)
	return rows
}

// TestScenarios runs testdata/*.txt, one story per file. Lines that begin with # are the story.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// play gives the text with what happens now behind each command.
func play(t *testing.T, text string) string {
	s := &scenario{}
	var b strings.Builder
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, " "):
			continue
		case len(words) > 0 && words[0] != "#":
			s.log = nil
			s.run(t, words[0], words[1:])
			b.WriteString(strings.TrimRight(line, "\n") + "\n")
			for _, l := range s.log {
				b.WriteString("    " + l + "\n")
			}
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}
