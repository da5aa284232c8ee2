package millracetest_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// exampleT is what a test's own t is elsewhere.
type exampleT struct{ ends []func() }

func (t *exampleT) Helper()                   {}
func (t *exampleT) Failed() bool              { return false }
func (t *exampleT) Logf(string, ...any)       {}
func (t *exampleT) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (t *exampleT) Cleanup(f func())          { t.ends = append(t.ends, f) }
func (t *exampleT) TempDir() string {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// over does what the end of a test does.
func (t *exampleT) over() {
	for i := len(t.ends) - 1; i >= 0; i-- {
		t.ends[i]()
	}
}

var (
	visits  = topology.NewTopic("visits", codec.String, codec.String)
	perUser = topology.NewKeyValueStore("visits-per-user", codec.String, codec.Int64)
)

func visitCounter() *topology.Topology {
	b := topology.NewBuilder()
	topology.Count(topology.From(b, visits), perUser)
	top, err := b.Build()
	if err != nil {
		panic(err)
	}
	return top
}

// A commit fails in the middle, and afterwards everything is as the topology says: outputs, changelog, store, offsets,
// transactions and states.
func ExampleCheck() {
	t := &exampleT{} // in a test, its own t
	defer t.over()
	c := millracetest.NewCluster(t, "site")
	c.CreateTopic("visits", 2)
	node := c.Start(visitCounter())
	node.Faults.At(fault.CommitOffsets).Error(errors.New("the broker is away"))
	millracetest.Produce(c, visits, millracetest.R("ann", "/"), millracetest.R("bob", "/"), millracetest.R("ann", "/shop"))
	node.Faults.AwaitFired(t, fault.CommitOffsets, 1)

	millracetest.Check(c, millracetest.NewOracle(visitCounter()))
	fmt.Println("nothing is wrong")
	// Output: nothing is wrong
}

// A test that knows by itself what must come out says so: the oracle then has a reference that is not the topology's doing.
func ExampleOracle() {
	t := &exampleT{} // in a test, its own t
	defer t.over()
	c := millracetest.NewCluster(t, "site")
	c.CreateTopic("visits", 2)
	c.Start(visitCounter())
	millracetest.Produce(c, visits, millracetest.R("ann", "/"), millracetest.R("bob", "/"), millracetest.R("ann", "/shop"))

	oracle := millracetest.NewOracle(visitCounter())
	millracetest.Expect(oracle, perUser, map[string]int64{"ann": 2, "bob": 2})
	for _, v := range millracetest.Violations(c, oracle) {
		fmt.Println(v)
	}
	// Output: expected: visits-per-user, key bob: want 2, got 1
}
