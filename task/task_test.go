package task_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
)

func TestLowestTimestampFirst(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	cfg := config(s, state, out)
	cfg.Sources = []record.TopicPartition{tp("b", 2), tp("a", 2), tp("c", 2)}
	k := start(t, cfg)
	var got []string
	s.process = func(topic string, r *record.Raw) error {
		source, offset, ok := s.host.Current()
		if source.Topic != topic || offset != r.Offset || !ok {
			t.Errorf("current %v %d %v in %s %d", source, offset, ok, topic, r.Offset)
		}
		got = append(got, topic)
		return nil
	}
	k.Add(batch(tp("a", 2), 0, 1, 4))
	k.Add(batch(tp("a", 2), 2, 9))
	k.Add(batch(tp("b", 2), 0, 1, 2, 9))
	k.Add(batch(tp("c", 2), 0, 0, 7, 3)) // 3 comes late: it is behind 7
	n, err := k.Process(now, 100)
	if diff := cmp.Diff([]string{"c", "b", "a", "b", "a", "c", "c", "b", "a"}, got); diff != "" || n != 9 || err != nil {
		t.Fatal(n, err, diff)
	}
	if s.host.StreamTime() != 9 {
		t.Errorf("stream time %d", s.host.StreamTime())
	}
	if _, _, ok := s.host.Current(); ok {
		t.Error("there is a current record outside of Process")
	}
}

// KIP-695: when may records be taken up although a partition has none? p0 has a record, p1 has what the row says.
func TestReady(t *testing.T) {
	empty := func(next, highWatermark, lastStable int64) broker.Batch {
		return broker.Batch{Source: tp("in", 1), From: 0, Next: next, HighWatermark: highWatermark, LastStable: lastStable}
	}
	for name, row := range map[string]struct {
		idle   time.Duration
		second []broker.Batch
		ready  bool
		// next is when to ask again, in milliseconds after now; -1 for never.
		next int64
	}{
		"data":                              {second: []broker.Batch{batch(tp("in", 1), 0, 5)}, ready: true, next: -1},
		"data, idle":                        {idle: time.Second, second: []broker.Batch{batch(tp("in", 1), 0, 5)}, ready: true, next: -1},
		"nothing known":                     {next: -1},
		"nothing known, idle":               {idle: time.Second, next: -1},
		"nothing known, no waiting":         {idle: -1, ready: true, next: -1},
		"caught up":                         {second: []broker.Batch{empty(0, 0, 0)}, ready: true, next: -1},
		"caught up behind a marker":         {second: []broker.Batch{empty(3, 3, 3)}, ready: true, next: -1},
		"caught up, idle":                   {idle: time.Second, second: []broker.Batch{empty(0, 0, 0)}, next: 1000},
		"caught up, no waiting":             {idle: -1, second: []broker.Batch{empty(0, 0, 0)}, ready: true, next: -1},
		"behind":                            {second: []broker.Batch{empty(0, 2, 2)}, next: -1},
		"behind, idle":                      {idle: time.Second, second: []broker.Batch{empty(0, 2, 2)}, next: -1},
		"behind, no waiting":                {idle: -1, second: []broker.Batch{empty(0, 2, 2)}, ready: true, next: -1},
		"open transaction":                  {second: []broker.Batch{empty(1, 4, 1)}, ready: true, next: -1},
		"open transaction, before it":       {second: []broker.Batch{empty(0, 4, 1)}, next: -1},
		"open transaction, reading over it": {second: []broker.Batch{empty(3, 4, 1)}, next: -1},
		"no last stable offset":             {second: []broker.Batch{empty(0, 4, -1)}, next: -1},
		"behind, then caught up":            {second: []broker.Batch{empty(0, 2, 2), {Source: tp("in", 1), Next: 2, HighWatermark: 2, LastStable: 2}}, ready: true, next: -1},
		"caught up, then behind":            {second: []broker.Batch{empty(0, 0, 0), empty(0, 1, 1)}, next: -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{}
			state, out := newPorts()
			cfg := config(s, state, out)
			cfg.Sources, cfg.MaxIdle = []record.TopicPartition{tp("in", 0), tp("in", 1)}, row.idle
			k := start(t, cfg)
			k.Add(batch(tp("in", 0), 0, 5))
			for _, b := range row.second {
				if !k.Add(b) {
					t.Fatal("refused", b)
				}
			}
			ready, next := k.Ready(now)
			if ready != row.ready || next.IsZero() != (row.next < 0) || row.next >= 0 && !next.Equal(now.Add(time.Duration(row.next)*time.Millisecond)) {
				t.Errorf("ready %v, next %v", ready, next)
			}
			if n, err := k.Process(now, 1); (n == 1) != row.ready || err != nil {
				t.Errorf("Process %d %v", n, err)
			}
		})
	}
}

// The idle time of a partition ends with its next record and begins anew.
func TestIdleTimeStartsAnew(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	cfg := config(s, state, out)
	cfg.Sources, cfg.MaxIdle = []record.TopicPartition{tp("in", 0), tp("in", 1)}, time.Second
	k := start(t, cfg)
	ask := func(after time.Duration, want bool, wantNext time.Duration) {
		t.Helper()
		ready, next := k.Ready(now.Add(after))
		if ready != want || (wantNext == 0) != next.IsZero() || wantNext > 0 && !next.Equal(now.Add(wantNext)) {
			t.Errorf("after %v: ready %v, next %v", after, ready, next.Sub(now))
		}
	}
	k.Add(batch(tp("in", 0), 0, 1, 2, 3))
	k.Add(broker.Batch{Source: tp("in", 1), LastStable: -1})
	ask(0, false, time.Second)
	ask(999*time.Millisecond, false, time.Second)
	ask(time.Second, true, 0)
	k.Add(batch(tp("in", 1), 0, 1))
	ask(time.Second, true, 0)
	if n, err := k.Process(now.Add(time.Second), 10); n != 2 || err != nil { // 1 of each, then in-1 is empty again
		t.Fatal(n, err)
	}
	ask(1500*time.Millisecond, false, 2*time.Second)
	k.Add(broker.Batch{Source: tp("in", 1), From: 1, Next: 1, HighWatermark: 2, LastStable: -1}) // something is there
	ask(1600*time.Millisecond, false, 0)
	k.Add(broker.Batch{Source: tp("in", 1), From: 1, Next: 2, HighWatermark: 2, LastStable: -1}) // only a marker
	ask(1700*time.Millisecond, false, 2700*time.Millisecond)
	ask(2700*time.Millisecond, true, 0)
}

// A batch without records behind others moves the position when those are done.
func TestMarkersBehindRecords(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	k := start(t, config(s, state, out))
	k.Add(batch(tp("in", 0), 0, 1, 2))
	k.Add(broker.Batch{Source: tp("in", 0), From: 2, Next: 5})
	for _, want := range []int64{1, 5} {
		if n, err := k.Process(now, 1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if u := commit(t, k, state); u.Position[tp("in", 0)] != want {
			t.Errorf("position %d, want %d", u.Position[tp("in", 0)], want)
		}
	}
}

// After a Rewind the reader starts with its whole credit, so what was owed before is not given back on top.
func TestRewindOwesNothing(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	k := start(t, config(s, state, out))
	k.Add(batch(tp("in", 0), 0, 1, 2))
	if _, err := k.Process(now, 2); err != nil {
		t.Fatal(err)
	}
	if err := k.Start(now, k.Rewind()); err != nil {
		t.Fatal(err)
	}
	k.Credits(func(source record.TopicPartition, bytes int) { t.Errorf("%d bytes of %s", bytes, source) })
}

// An answer to a commit from before a Rewind says nothing about the one that is under way now.
func TestLateAnswersAreIgnored(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	k := start(t, config(s, state, out))
	prepare := func() *task.Unit {
		t.Helper()
		k.Add(batch(tp("in", 0), 0, 1, 2))
		if _, err := k.Process(now, 2); err != nil {
			t.Fatal(err)
		}
		u, err := k.Prepare(now)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	late := prepare()
	if err := k.Start(now, k.Rewind()); err != nil {
		t.Fatal(err)
	}
	prepare()
	k.Committed(late)
	k.Applied(late)
	if _, err := k.Prepare(now); !errors.Is(err, task.ErrCommitUnderWay) {
		t.Errorf("Prepare: %v", err)
	}
	if at := k.Rewind(); at[tp("in", 0)].At != 0 {
		t.Errorf("rewound to %v", at)
	}
}

// Partition time rides with the offsets: stream time is back after a restart, and after a rewind it is that of the commit.
func TestStreamTimeComesBack(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	k := newTask(t, config(s, state, out))
	k.Restoring()
	if err := k.Start(now, broker.Offsets{tp("in", 0): {At: 5, Metadata: task.Metadata{PartitionTime: 70}.String()}}); err != nil {
		t.Fatal(err)
	}
	if s.host.StreamTime() != 70 {
		t.Fatalf("stream time %d", s.host.StreamTime())
	}
	k.Add(batch(tp("in", 0), 5, 60, 80))
	if _, err := k.Process(now, 1); err != nil || s.host.StreamTime() != 70 {
		t.Fatalf("a late record: stream time %d, %v", s.host.StreamTime(), err)
	}
	u := commit(t, k, state)
	if _, err := k.Process(now, 1); err != nil || s.host.StreamTime() != 80 {
		t.Fatalf("stream time %d, %v", s.host.StreamTime(), err)
	}
	at := k.Rewind()
	if diff := cmp.Diff(u.Offsets, at); diff != "" {
		t.Fatal(diff)
	}
	if err := k.Start(now, at); err != nil || s.host.StreamTime() != 70 {
		t.Fatalf("after the rewind: stream time %d, %v", s.host.StreamTime(), err)
	}
}

func TestMetadataRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := task.Metadata{PartitionTime: rapid.Int64().Draw(t, "time"), TransactionalID: rapid.String().Draw(t, "id"), Transaction: rapid.Uint64().Draw(t, "n")}
		if got, ok := task.ParseMetadata(m.String()); !ok || got != m {
			t.Fatalf("%q: %+v %v", m, got, ok)
		}
	})
	rapid.Check(t, func(t *rapid.T) { // whatever a tool has left there
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[12]?\|?-?[0-9x]{0,20}\|[0-9]{0,21}\|.*`)).Draw(t, "text")
		if m, ok := task.ParseMetadata(text); !ok && (m != task.Metadata{PartitionTime: -1}) || ok && task.Metadata.String(m) == "" {
			t.Fatalf("%q: %+v %v", text, m, ok)
		}
	})
	for _, foreign := range []string{"", "1", "AQAAAYvN5WgA", "2|5|0|", "1|x|0|", "1|5|-1|", "1|5|0", "somebody's | note | with | bars"} {
		if got, ok := task.ParseMetadata(foreign); ok || got.PartitionTime != -1 {
			t.Errorf("%q: %+v %v", foreign, got, ok)
		}
	}
}

// A task starts at offsets that a Java application or a tool has committed; its own commit follows under its stamp, also
// if nothing has changed, and also in partitions that had no records.
func TestStampOnForeignOffsets(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	cfg := config(s, state, out)
	cfg.Sources = []record.TopicPartition{tp("in", 0), tp("in", 1)}
	k := newTask(t, cfg)
	k.Restoring()
	at := broker.Offsets{tp("in", 0): {At: 5, Metadata: "AQAAAYvN5WgA"}, tp("in", 1): {At: 7, Metadata: "1|40|3|app-2"}}
	if err := k.Start(now, at); err != nil || s.host.StreamTime() != 40 {
		t.Fatal(err, s.host.StreamTime())
	}
	for n := range uint64(3) {
		u, err := k.PrepareTransaction(now, task.Stamp{TransactionalID: "app-1", Number: n})
		if err != nil || len(u.Writes) > 0 || len(out.Log) > 0 {
			t.Fatal(u, err)
		}
		want := broker.Offsets{
			tp("in", 0): {At: 5, Metadata: task.Metadata{PartitionTime: -1, TransactionalID: "app-1", Transaction: n}.String()},
			tp("in", 1): {At: 7, Metadata: task.Metadata{PartitionTime: 40, TransactionalID: "app-1", Transaction: n}.String()},
		}
		if diff := cmp.Diff(want, u.Offsets); diff != "" {
			t.Fatal(diff)
		}
		k.Committed(u)
		k.Applied(u)
	}
	if u, err := k.Prepare(now); err != nil || u.Offsets[tp("in", 1)].Metadata != "1|40|0|" {
		t.Error("at least once there is no stamp:", u.Offsets, err)
	}
}

func TestOutputChoosesPartitions(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	k := start(t, config(s, state, out))
	within(t, k, s, func() {
		o := s.host.Output("out")
		if o.Partitions() != 4 {
			t.Errorf("%d partitions", o.Partitions())
		}
		send := func(r record.Raw, partition int32) {
			if err := o.Send(&r, partition); err != nil {
				t.Error(err)
			}
		}
		send(record.Raw{Key: []byte("the"), Value: []byte("by key")}, -1)
		send(record.Raw{Key: []byte{}, Value: []byte("by the empty key")}, -1)
		send(record.Raw{Key: []byte("the"), Value: []byte("chosen")}, 3)
		for range 5 * 256 {
			send(record.Raw{Value: []byte("no key")}, -1)
		}
	})
	has := func(partition int32, value string) (n int) {
		for _, r := range out.Log[tp("out", partition)] {
			if string(r.Value) == value {
				n++
			}
		}
		return n
	}
	if has(record.Partition([]byte("the"), 4), "by key") != 1 || has(record.Partition(nil, 4), "by the empty key") != 1 || has(3, "chosen") != 1 {
		t.Error(out.Log)
	}
	for partition, want := range []int{256, 256, 512, 256} { // the task's own partition, 2, comes first
		if n := has(int32(partition), "no key"); n != want {
			t.Errorf("%d records without a key in partition %d, want %d", n, partition, want)
		}
	}
	if !k.NeedsCommit() {
		t.Error("records that were sent need a commit")
	}
}

func TestSendRefusesAPartitionThatIsNotThere(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	k := start(t, config(s, state, out))
	within(t, k, s, func() {
		if err := s.host.Output("out").Send(&record.Raw{}, 4); err == nil || len(out.Log) > 0 {
			t.Error(err, out.Log)
		}
	})
}

// Process stops behind the record that asks for a commit; while that commit is waited for, it goes on.
func TestRequestCommit(t *testing.T) {
	for _, sources := range [][]record.TopicPartition{{tp("in", 0)}, {tp("in", 0), tp("in", 1)}} {
		s := &script{}
		state, out := newPorts()
		cfg := config(s, state, out)
		cfg.Sources, cfg.MaxIdle = sources, -1
		k := start(t, cfg)
		s.process = func(_ string, r *record.Raw) error {
			if r.Offset == 1 {
				s.host.RequestCommit()
			}
			return nil
		}
		k.Add(batch(tp("in", 0), 0, 1, 2, 3, 4))
		if n, err := k.Process(now, 10); n != 2 || err != nil || !k.CommitRequested() {
			t.Fatal(n, err, k.CommitRequested())
		}
		if n, err := k.Process(now, 1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if u := commit(t, k, state); u.Position[tp("in", 0)] != 3 || k.CommitRequested() {
			t.Fatal(u.Position, k.CommitRequested())
		}
	}
}

// What is NeedsCommit's reason, one at a time; and each is done with after a commit.
func TestNeedsCommit(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *task.Task, *script){
		"record": func(t *testing.T, k *task.Task, s *script) {
			k.Add(batch(tp("in", 0), 0, 1))
			if k.NeedsCommit() {
				t.Error("a batch that was not processed")
			}
			if _, err := k.Process(now, 1); err != nil {
				t.Fatal(err)
			}
		},
		"marker": func(_ *testing.T, k *task.Task, _ *script) { k.Add(broker.Batch{Source: tp("in", 0), Next: 1}) },
		"seek":   func(_ *testing.T, k *task.Task, _ *script) { k.Seek(tp("in", 0), 9) },
		"store":  func(t *testing.T, k *task.Task, s *script) { within(t, k, s, func() { put(t, s, "s0", "k", "", 1) }) },
		"output": func(t *testing.T, k *task.Task, s *script) {
			within(t, k, s, func() { _ = s.host.Output("out").Send(&record.Raw{}, 0) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{}
			state, out := newPorts()
			k := start(t, config(s, state, out))
			if k.NeedsCommit() {
				t.Fatal("a new task needs a commit")
			}
			change(t, k, s)
			if !k.NeedsCommit() {
				t.Error("no")
			}
			commit(t, k, state)
			if k.NeedsCommit() {
				t.Error("still, after the commit")
			}
		})
	}
}

// Seek drops what was fetched, and the position of the next batch is the new one.
func TestSeek(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	k := start(t, config(s, state, out))
	k.Add(batch(tp("in", 0), 0, 1, 2))
	k.Seek(tp("in", 0), 40)
	if k.Add(batch(tp("in", 0), 2, 3)) {
		t.Error("a batch from before the seek was accepted")
	}
	if !k.Add(batch(tp("in", 0), 40, 5)) {
		t.Error("the batch at the new position was refused")
	}
	if n, err := k.Process(now, 9); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if u := commit(t, k, state); u.Position[tp("in", 0)] != 41 {
		t.Error(u.Position)
	}
}

func TestPunctuateTellsTimes(t *testing.T) {
	s := &script{wall: 2_000_000}
	state, out := newPorts()
	cfg := config(s, state, out)
	dropped := map[string]int{}
	cfg.Dropped = func(reason string) { dropped[reason]++ }
	k := start(t, cfg)
	if at, ok := k.NextWallClock(); !ok || at.UnixMilli() != 2_000_000 {
		t.Error(at, ok)
	}
	if at := s.host.WallClock(); at != now.UnixMilli() {
		t.Errorf("it starts at %d", at) // a first punctuation is one interval from here
	}
	called := false
	s.punctuate = func(streamTime, wallClock int64) error {
		called = true
		if streamTime != -1 || wallClock != now.UnixMilli() || s.host.WallClock() != wallClock || s.host.StreamTime() != -1 {
			t.Error(streamTime, wallClock)
		}
		s.host.Dropped("null key")
		return nil
	}
	if err := k.Punctuate(now); err != nil || !called || dropped["null key"] != 1 {
		t.Error(err, called, dropped)
	}
	if s.host.TaskID() != k.ID() || s.host.Store("other") != nil {
		t.Error("the host names another task or a store that it does not have")
	}
}
