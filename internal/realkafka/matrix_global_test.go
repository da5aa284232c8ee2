//go:build realkafka

package realkafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// matrixGlobalThread is the thread of the global store.
const matrixGlobalThread = "global-countries"

// matrixCountries is the global store; values is the codec of the child that has it, or of the parent that asks for it.
func matrixCountries(app string, values codec.Codec[string]) topology.GlobalStore[string, string] {
	return topology.NewGlobalStore("countries", topology.NewTopic(app+"-countries", codec.String, values))
}

var errUnreadable = errors.New("this text cannot be read")

// moody is a codec that does what texts say: "unreadable" never can be read, "slip" not the first time, and one that begins
// with "block" when the parent lets it go on.
type moody struct {
	codec.Codec[string]
	child *matrixChild
	slip  *sync.Once
}

func newMoody(c *matrixChild) moody { return moody{codec.String, c, &sync.Once{}} }

// Decode implements codec.Codec.
func (m moody) Decode(b []byte) (string, error) {
	err := error(nil)
	switch s := string(b); s {
	case "unreadable":
		err = errUnreadable
	case "slip":
		m.slip.Do(func() { err = errUnreadable })
	case "block":
		m.child.hold(s)
	}
	if err != nil {
		return "", err
	}
	return m.Codec.Decode(b)
}

// matrixThread is what a child says of one of its threads.
type matrixThread struct {
	State string
	Epoch uint64
}

func asMatrixThreads(all []lifecycle.ThreadStatus) map[string]matrixThread {
	out := map[string]matrixThread{}
	for _, th := range all {
		out[th.Name] = matrixThread{th.State.String(), th.Epoch}
	}
	return out
}

// globally gives the nodes of a scene a global store, with one record in its topic.
func globally(reach func(*scene)) func(*scene) {
	return func(s *scene) {
		s.t.Helper()
		createTopics(s.t, s.c.Brokers(), 1, s.countries().Topic)
		s.global = true
		s.tell("name")
		reach(s)
	}
}

func (s *scene) countries() record.TopicPartition {
	return record.TopicPartition{Topic: s.app + "-countries"}
}

// tell writes a record for the global store.
func (s *scene) tell(name string) {
	s.t.Helper()
	w := s.producer(s.countries())
	r := record.Raw{Key: []byte(matrixKeys(0)[0]), Value: []byte(name), Timestamp: time.Now().UnixMilli()}
	if err := w.Write(s.ctx, []record.Raw{r}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) openGlobal() {
	s.t.Helper()
	var err error
	if s.globalView, err = query.Open(s.ctx, s.node, matrixCountries(s.app, codec.String)); err != nil {
		s.t.Fatal(err)
	}
}

// awaitGlobal waits for an incarnation of the global store in a state.
func (s *scene) awaitGlobal(want matrixThread) {
	s.t.Helper()
	s.node.awaitStatus(fmt.Sprintf("has the global store's thread %+v", want), func(st matrixStatus) bool { return st.Threads[matrixGlobalThread] == want })
}

// bootstrapped is held at a record of the topic.
func (s *scene) bootstrapped() {
	s.tell("block")
	s.run()
	await(s.t, "the global store reads its topic", func(ctx context.Context) error {
		restores, err := query.Restores(ctx, s.node, "countries")
		if err == nil && len(restores) != 1 {
			err = fmt.Errorf("%+v", restores)
		}
		return err
	})
}

// globalBeforeThreads has the global store served while the only thread restores, which it does behind a transaction that is
// open in the changelog.
func (s *scene) globalBeforeThreads() {
	s.restoring()
	s.awaitState("REBALANCING")
	s.awaitGlobal(matrixThread{"RUNNING", 1})
}

// globalPending has the store's thread fail and wait for hours.
func (s *scene) globalPending() {
	s.running(patient)
	s.tell("unreadable")
	s.awaitGlobal(matrixThread{"REBALANCING", 2})
	s.awaitState("REBALANCING")
}

// globalAnew has the store's thread fail once.
func (s *scene) globalAnew() {
	s.tell("slip")
	s.awaitGlobal(matrixThread{"RUNNING", 2})
}

// globalGivenUp has it fail, and the node end with it.
func (s *scene) globalGivenUp() {
	s.running(ends)
	s.openGlobal()
	s.tell("unreadable")
	s.awaitState("ERROR")
}
