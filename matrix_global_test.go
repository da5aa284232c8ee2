package millrace_test

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
)

// globally gives the nodes of a stage a global store.
func globally(reach func(*stage)) func(*stage) {
	return func(s *stage) {
		countries := newCountries()
		s.countries = &countries
		if err := s.c.Kfake().CreateTopic("countries", 1, nil); err != nil {
			s.t.Fatal(err)
		}
		s.tell("name")
		reach(s)
	}
}

// tell writes a record for the global store.
func (s *stage) tell(name string) {
	s.t.Helper()
	s.w.put(record.TopicPartition{Topic: "countries"}, record.Raw{Key: []byte(keysOf(0)[0]), Value: []byte(name), Timestamp: 1})
	s.w.flush()
}

// bootstrapped is held at the first read of the topic.
func (s *stage) bootstrapped() {
	g := s.shut(kmsg.Fetch, func(r kmsg.Request) bool {
		for _, topic := range r.(*kmsg.FetchRequest).Topics {
			if topic.Topic == "countries" {
				return true
			}
		}
		return false
	})
	s.run("here:1")
	g.await(s)
	await(s.ctx, s.t, func() bool {
		restores, err := query.Restores(s.ctx, s.node, "countries")
		return err == nil && len(restores) == 1
	}, func() string { return fmt.Sprint(s.node.Threads()) })
}

func (s *stage) openGlobal() {
	s.t.Helper()
	var err error
	if s.global, err = query.Open(s.ctx, s.node, *s.countries); err != nil {
		s.t.Fatal(err)
	}
}

// awaitGlobal waits for an incarnation of the global store in a state.
func (s *stage) awaitGlobal(epoch uint64, state lifecycle.Thread) {
	s.t.Helper()
	await(s.ctx, s.t, func() bool {
		for _, th := range s.node.Threads() {
			if th.Name == "global-countries" && th.Epoch == epoch && th.State == state {
				return true
			}
		}
		return false
	}, func() string { return fmt.Sprint(s.node.Threads()) })
}

// globalPending has the store's thread fail and wait an hour for its restart.
func (s *stage) globalPending() {
	s.running(millrace.WithRestarts(actors.Intensity{Max: 3, Window: time.Hour, First: 2 * time.Hour, Cap: 2 * time.Hour}))
	s.tell("unreadable")
	s.awaitGlobal(2, lifecycle.ThreadRebalancing)
}

// globalAnew has the store's thread fail once.
func (s *stage) globalAnew() {
	s.tell("slip")
	s.awaitGlobal(2, lifecycle.ThreadRunning)
}

// globalGivenUp has it fail, and the node end with it.
func (s *stage) globalGivenUp() {
	s.running(millrace.WithUncaughtHandler(func(millrace.Failure) millrace.Answer { return millrace.ShutdownNode }))
	s.openGlobal()
	s.tell("unreadable")
	s.awaitState(lifecycle.NodeError)
}
