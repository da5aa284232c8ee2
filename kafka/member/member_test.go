package member_test

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
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/member"
	"github.com/millrace-io/millrace/record"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts of testdata anew")

// story is a machine, and what its scenario refers to without saying it: the clock, the last join and generation.
type story struct {
	m   *member.Machine
	now time.Time
	seq uint64
	gen int32
	out strings.Builder
}

func classified(op broker.Op, code int16) *broker.Error {
	return kafka.NewError(op, code, record.TopicPartition{}, nil)
}

func newStory(static bool) *story {
	return &story{now: time.Unix(1000, 0), m: member.New(member.Config{Session: 10 * time.Second, Static: static, Error: classified})}
}

// TestStories plays testdata/*.txt. A line that begins with ">" is an event; the lines after it are its effects.
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
	s := newStory(strings.Contains(script, "# static"))
	for line := range strings.Lines(script) {
		switch {
		case strings.HasPrefix(line, "#"):
			s.out.WriteString(line)
		case strings.HasPrefix(line, ">"):
			s.out.WriteString(line)
			s.show(s.event(t, strings.Fields(line[1:])))
		}
	}
	return s.out.String()
}

// named gives the value of name=value among the words.
func named(words []string, name, otherwise string) string {
	for _, w := range words {
		if v, ok := strings.CutPrefix(w, name+"="); ok {
			return v
		}
	}
	return otherwise
}

func number(t *testing.T, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func partitions(t *testing.T, s string) (tps []record.TopicPartition) {
	for w := range strings.SplitSeq(s, ",") {
		if w != "" {
			tps = append(tps, record.TopicPartition{Topic: "t", Partition: int32(number(t, w))})
		}
	}
	return tps
}

func offsets(t *testing.T, s string) broker.Offsets {
	o := broker.Offsets{}
	for w := range strings.SplitSeq(s, ",") {
		p, at, _ := strings.Cut(w, ":")
		o[partitions(t, p)[0]] = broker.Offset{At: number(t, at)}
	}
	return o
}

// event plays one line. Answers carry a code first; "lost" is a transport error.
func (s *story) event(t *testing.T, w []string) []member.Effect {
	code := func(at int) int16 {
		if w[at] == "no-answer" {
			return member.Transport
		}
		return int16(number(t, w[at]))
	}
	gen := func() int32 { return int32(number(t, named(w, "gen", fmt.Sprint(s.gen)))) }
	switch w[0] {
	case "start":
		return s.m.Start(s.now)
	case "after":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(d)
		return nil
	case "joined":
		if code(1) == 0 {
			s.gen = gen()
		}
		return s.m.Joined(s.now, member.JoinAnswer{Seq: uint64(number(t, named(w, "seq", fmt.Sprint(s.seq)))), Code: code(1), Generation: gen(), MemberID: named(w, "id", ""), Leader: slices.Contains(w, "leader")})
	case "synced":
		return s.m.Synced(s.now, member.SyncAnswer{Generation: gen(), Code: code(1), Partitions: partitions(t, named(w, "has", "")), Stale: slices.Contains(w, "stale")})
	case "released":
		return s.m.Released(s.now, gen())
	case "tick":
		return s.m.Tick(s.now)
	case "beat":
		return s.m.Beat(s.now, gen(), code(1))
	case "rejoin":
		return s.m.Rejoin(s.now, strings.Join(w[1:], " "))
	case "commit":
		return s.m.Commit(s.now, uint64(number(t, w[1])), offsets(t, w[2]))
	case "committed":
		return s.m.Committed(s.now, uint64(number(t, w[1])), code(2))
	case "offsets":
		return s.m.Offsets(s.now, uint64(number(t, w[1])), partitions(t, w[2]), !slices.Contains(w, "unstable"))
	case "fetched":
		return s.m.Fetched(s.now, uint64(number(t, w[1])), offsets(t, w[2]), nil)
	case "leave":
		return s.m.Leave(s.now)
	}
	t.Fatalf("no such event: %v", w)
	return nil
}

func (s *story) show(effects []member.Effect) {
	for _, e := range effects {
		fmt.Fprintf(&s.out, "  %s\n", s.describe(e))
	}
	fmt.Fprintf(&s.out, "  = %s\n", s.m.Phase())
}

func (s *story) describe(e member.Effect) string {
	switch e := e.(type) {
	case member.Join:
		s.seq = e.Seq
		return fmt.Sprintf("join #%d as %q owning %v of generation %d, attempt %d: %s", e.Seq, e.MemberID, e.Owned, e.Generation, e.Attempt, e.Reason)
	case member.Sync:
		return fmt.Sprintf("sync generation %d as %q, leader %t", e.Generation, e.MemberID, e.Leader)
	case member.Heartbeat:
		return fmt.Sprintf("heartbeat generation %d as %q", e.Generation, e.MemberID)
	case member.Commit:
		return fmt.Sprintf("commit %d %s in generation %d as %q, attempt %d", e.Token, positions(e.Offsets), e.Generation, e.MemberID, e.Attempt)
	case member.Fetch:
		return fmt.Sprintf("fetch offsets %d of %v, stable %t", e.Token, e.Partitions, e.Stable)
	case member.Deliver:
		return "deliver " + delivered(e.Event)
	}
	return fmt.Sprintf("%T", e)
}

func delivered(e broker.Event) string {
	class := func(err *broker.Error) string {
		if err == nil {
			return "ok"
		}
		return fmt.Sprintf("%s %d %s", err.Op, err.Code, err.Class)
	}
	switch e := e.(type) {
	case broker.Assigned:
		return fmt.Sprintf("Assigned %v, added %v, generation %d as %q", e.Partitions, e.Added, e.Generation, e.MemberID)
	case broker.Revoking:
		return fmt.Sprintf("Revoking %v, generation %d", e.Partitions, e.Generation)
	case broker.Lost:
		return fmt.Sprintf("Lost %v: %s", e.Partitions, class(e.Cause))
	case broker.Rejoining:
		return "Rejoining: " + e.Reason
	case broker.OffsetsCommitted:
		return fmt.Sprintf("OffsetsCommitted %d: %s", e.Token, class(e.Err))
	case broker.OffsetsFetched:
		return fmt.Sprintf("OffsetsFetched %d %s: %s", e.Token, positions(e.Offsets), class(e.Err))
	case broker.GroupFailed:
		return "GroupFailed: " + class(e.Err)
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
