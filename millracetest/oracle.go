package millracetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/topology"
)

// Oracle knows what a topology must have made of the records in a cluster's topics: it runs the topology itself, task by task,
// on what the source topics hold, without threads, brokers and faults. What it expects is the topology's own doing; Expect and
// ExpectLast add what the test knows better than the topology.
//
// It goes by the order of the records in each partition. A task that reads several partitions takes the records by their
// timestamps, as a node does that has them all; a node that did not have them all may rightly have taken others first, and
// the oracle will say so: give such records timestamps that do not depend on it, or read one topic. Neither does it know of the
// wall clock: outputs of punctuations on the wall clock are invented to it.
type Oracle struct {
	topology    *topology.Topology
	atLeastOnce bool
	untimed     bool
	patience    time.Duration
	expected    []func(*checking)
}

// OracleOption changes one thing about an Oracle.
type OracleOption func(*Oracle)

// AtLeastOnce is for nodes that run at least once: outputs may be doubled, and what is made of many records may be of more of
// them. Nothing may be missing, and stores are still what their changelogs say.
func AtLeastOnce() OracleOption { return func(o *Oracle) { o.atLeastOnce = true } }

// Untimed leaves the timestamps of outputs, changelogs and stores out of the comparison.
func Untimed() OracleOption { return func(o *Oracle) { o.untimed = true } }

// Settling is for how long Check waits until everybody is RUNNING, each store partition has one owner, and the last commits and
// transactions have ended: 30 s unless it says otherwise.
func Settling(d time.Duration) OracleOption { return func(o *Oracle) { o.patience = d } }

// NewOracle knows a topology. It is that of the nodes, or another one that must come to the same.
func NewOracle(t *topology.Topology, opts ...OracleOption) *Oracle {
	o := &Oracle{topology: t, patience: 30 * time.Second}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// Expect has Check compare all entries of a store with those of a reference of the test's own.
func Expect[K comparable, V any](o *Oracle, store query.Handle[K, V], want map[K]V) {
	o.expected = append(o.expected, func(c *checking) {
		if c.member == nil {
			return
		}
		got := map[K]V{}
		for e, err := range query.All(c.ctx, c.member, store) {
			if err != nil {
				c.report(NotAsExpected, store.StoreName(), "entries", err.Error())
				return
			}
			got[e.Key] = e.Value
		}
		compare(c, store.StoreName(), got, want)
	})
}

// ExpectLast has Check compare the last committed record of each key in a topic with a reference of the test's own. A
// tombstone takes the key out.
func ExpectLast[K comparable, V any](o *Oracle, topic topology.Topic[K, V], want map[K]V) {
	o.expected = append(o.expected, func(c *checking) { compare(c, topic.Name(), Latest(Consume(c.cluster, topic)), want) })
}

func compare[K comparable, V any](c *checking, where string, got, want map[K]V) {
	for key, v := range want {
		if g, ok := got[key]; !ok {
			c.report(NotAsExpected, fmt.Sprintf("%s, key %v", where, key), fmt.Sprint(v), nothing)
		} else if !reflect.DeepEqual(g, v) {
			c.report(NotAsExpected, fmt.Sprintf("%s, key %v", where, key), fmt.Sprint(v), fmt.Sprint(g))
		}
	}
	for key, g := range got {
		if _, ok := want[key]; !ok {
			c.report(NotAsExpected, fmt.Sprintf("%s, key %v", where, key), nothing, fmt.Sprint(g))
		}
	}
}

const nothing = "nothing"

// Law names what a Violation breaks.
type Law string

// The laws.
const (
	// Lost, Doubled, Invented, Order: a committed output is missing, is there more often than it should, has no input, or
	// comes before one of its key that should be before it.
	Lost     Law = "lost"
	Doubled  Law = "doubled"
	Invented Law = "invented"
	Order    Law = "order"
	// Changelog: the fold of the committed changelog is not the reference's. Store: a store is not. StoreLog: a store is not the
	// fold of its changelog.
	Changelog Law = "changelog"
	Store     Law = "store"
	StoreLog  Law = "store-log"
	// Unserved, ServedTwice: no member, or more than one, answers for a partition of a store.
	Unserved    Law = "unserved"
	ServedTwice Law = "served-twice"
	// Behind: a committed offset is not the end of its partition. OpenTransaction: a transaction holds a partition up.
	Behind          Law = "behind"
	OpenTransaction Law = "open-transaction"
	// Undeclared: something is in a state, or has made a transition, that is in no table of package lifecycle. NotRunning: a
	// node or a thread is not RUNNING, though nothing is wrong any more.
	Undeclared Law = "undeclared"
	NotRunning Law = "not-running"
	// WentBack: a store has answered with a position, and later with one before it.
	WentBack Law = "went-back"
	// Vacuous: a fault has never fired.
	Vacuous Law = "vacuous"
	// NotAsExpected: Expect or ExpectLast says otherwise.
	NotAsExpected Law = "expected"
	// Left: a goroutine, an open file or a lock is left behind a node.
	Left Law = "left"
	// Unknown: it cannot be told, because a topic or a store cannot be read.
	Unknown Law = "unknown"
)

// Violation is one thing that is not as it should be.
type Violation struct {
	Law Law
	// Where is the topic partition and key, the store partition and key, the member or the point.
	Where     string
	Want, Got string
}

// String is one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s: want %s, got %s", v.Law, v.Where, v.Want, v.Got)
}

// checking is one check of a cluster.
type checking struct {
	*Oracle
	ctx     context.Context
	cluster *Cluster
	// bound is the topology under the cluster's application id.
	bound *topology.Topology
	// member is one that lives, nil if none does.
	member *Member
	// deadline is closed when what is wrong is no longer expected to come right.
	deadline <-chan struct{}
	found    []Violation
}

func (c *checking) report(law Law, where, want, got string) {
	c.found = append(c.found, Violation{law, where, want, got})
}

// Check waits until the members that live have processed everything, and compares all that there is to see with what the
// oracle knows: committed outputs, changelogs, stores, committed offsets, open transactions, states and their transitions,
// recorded answers, and whether each fault has fired. It fails the test with everything that is wrong, and the transcripts of
// all members. Faults that should be over must be: Clear them and Heal before.
func Check(c *Cluster, o *Oracle) {
	c.tb.Helper()
	if found := Violations(c, o); len(found) > 0 {
		c.tb.Fatalf("millracetest: %s", Report(c, found))
	}
}

// Violations is Check for a test that looks at what is wrong itself.
func Violations(c *Cluster, o *Oracle) []Violation {
	c.tb.Helper()
	ctx, cancel := patient()
	defer cancel()
	settling, over := context.WithTimeout(ctx, o.patience)
	defer over()
	check := &checking{Oracle: o, ctx: ctx, cluster: c, bound: o.topology.Bind(c.app), deadline: settling.Done()}
	check.states()
	check.ends()
	if ref := check.replay(); ref != nil {
		check.outputs(ref)
		check.stores(ref)
		ref.close()
	}
	for _, expect := range o.expected {
		expect(check)
	}
	check.answers()
	check.faults()
	return check.found
}

// Report tells violations, at most fifty of them, and what the members have published.
func Report(c *Cluster, found []Violation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d violations:\n", len(found))
	for _, v := range found[:min(len(found), 50)] {
		fmt.Fprintf(&b, "  %s\n", v)
	}
	for _, m := range c.members {
		b.WriteString(m.probe.String())
	}
	return b.String()
}

// live are the members that have not ended.
func (c *Cluster) live() []*Member {
	return slices.DeleteFunc(slices.Clone(c.members), func(m *Member) bool {
		select {
		case err := <-m.ran:
			m.ran <- err
			return true
		default:
			return m.ended
		}
	})
}
