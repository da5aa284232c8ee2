package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scenario is everything that a run depends on.
type scenario struct {
	Seed                       uint64
	Nodes, Partitions, Records int
	// Feed is the time in which the input is written.
	Feed                                time.Duration
	ExactlyOnce, EveryUpdate, FailFirst bool
	Faults                              []fault
}

// fault is one thing that goes wrong. What its fields mean besides depends on the kind.
type fault struct {
	At   time.Duration
	Kind kind
	// Node is the number of the node that it is for, from 1 on.
	Node int
	// Point is the request or the step that it waits for; empty stands for any.
	Point string
	// Behind says that it strikes after the step and not before it.
	Behind bool
	// N is a count: the Nth record, or the Nth request that matches.
	N int
	// For is how long it lasts.
	For time.Duration
}

func (s *scenario) faultsEnd() time.Duration {
	end := s.Feed
	for _, f := range s.Faults {
		end = max(end, f.At)
	}
	return end + 3*time.Second
}

const (
	leastFaults = 8
	planned     = 15
)

// fromSeed makes a scenario by chance, of the kinds in only if there are any, besides the two faults that each has.
func fromSeed(seed uint64, only ...kind) *scenario {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &scenario{
		Seed: seed, Nodes: 3 + rng.IntN(2), Partitions: 2 + rng.IntN(2), Records: 300 + rng.IntN(120), Feed: time.Duration(20+rng.IntN(15)) * time.Second,
		ExactlyOnce: rng.IntN(4) > 0, EveryUpdate: rng.IntN(3) > 0, FailFirst: rng.IntN(2) == 0,
	}
	if len(only) > 0 && !slices.ContainsFunc(only, func(k kind) bool { return !kinds[k-1].exactlyOnce }) {
		s.ExactlyOnce = true
	}
	at := func() time.Duration {
		return (2*time.Second + time.Duration(rng.Int64N(int64(s.Feed-2*time.Second)))).Truncate(time.Millisecond)
	}
	// Each has these two. What else there is differs from seed to seed: with everything in each, rare things would always
	// be masked by others.
	s.Faults = append(s.Faults,
		fault{At: at() / 2, Kind: kindCrash, Node: 1 + rng.IntN(s.Nodes), Point: commitPoints(s.ExactlyOnce)[rng.IntN(len(commitPoints(s.ExactlyOnce)))], Behind: rng.IntN(2) == 0, N: 1 + rng.IntN(3)},
		fault{At: at(), Kind: kindRejoin, Node: 1 + rng.IntN(s.Nodes)})
	subset := rng.Perm(len(kinds))[:4+rng.IntN(len(kinds)-4)]
	if len(only) > 0 {
		subset = subset[:0]
		for _, k := range only {
			subset = append(subset, int(k)-1)
		}
	}
	for len(s.Faults) < planned+rng.IntN(4) {
		k := kind(subset[rng.IntN(len(subset))]) + 1
		if !s.ExactlyOnce && kinds[k-1].exactlyOnce {
			continue
		}
		f := fault{At: at(), Kind: k, Node: 1 + rng.IntN(s.Nodes)}
		kinds[k-1].plan(rng, s, &f)
		s.Faults = append(s.Faults, f)
	}
	slices.SortStableFunc(s.Faults, func(a, b fault) int { return int(a.At - b.At) })
	return s
}

// String is a scenario as a file: a line for the cluster and one for each fault.
func (s *scenario) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster seed=%d nodes=%d partitions=%d records=%d feed=%s exactly-once=%t every-update=%t fail-first=%t\n",
		s.Seed, s.Nodes, s.Partitions, s.Records, s.Feed, s.ExactlyOnce, s.EveryUpdate, s.FailFirst)
	for _, f := range s.Faults {
		fmt.Fprintf(&b, "fault at=%s kind=%s node=%d point=%s behind=%t n=%d for=%s\n", f.At, f.Kind, f.Node, f.Point, f.Behind, f.N, f.For)
	}
	return b.String()
}

// parse reads what String wrote; lines that begin with # are comments.
func parse(text string) (*scenario, error) {
	s := &scenario{}
	for n, line := range strings.Split(text, "\n") {
		what, rest, _ := strings.Cut(line, " ")
		var err error
		switch what {
		case "cluster":
			err = s.parseCluster(fields(rest))
		case "fault":
			err = s.parseFault(fields(rest))
		case "", "#":
		default:
			err = fmt.Errorf("%q is neither cluster nor fault", what)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	if s.Nodes < 1 || s.Partitions < 1 || s.Feed <= 0 {
		return nil, fmt.Errorf("there is no line that describes the cluster")
	}
	return s, nil
}

// fields are the name=value pairs of a line; the first error sticks.
func fields(rest string) *pairs {
	p := &pairs{values: map[string]string{}}
	for word := range strings.FieldsSeq(rest) {
		name, value, _ := strings.Cut(word, "=")
		p.values[name] = value
	}
	return p
}

type pairs struct {
	values map[string]string
	err    error
}

func value[T any](p *pairs, name string, parse func(string) (T, error)) T {
	v, err := parse(p.values[name])
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("%s: %w", name, err)
	}
	return v
}

func (s *scenario) parseCluster(p *pairs) error {
	s.Seed = value(p, "seed", func(t string) (uint64, error) { return strconv.ParseUint(t, 10, 64) })
	s.Nodes, s.Partitions, s.Records = value(p, "nodes", strconv.Atoi), value(p, "partitions", strconv.Atoi), value(p, "records", strconv.Atoi)
	s.Feed = value(p, "feed", time.ParseDuration)
	s.ExactlyOnce, s.EveryUpdate, s.FailFirst = value(p, "exactly-once", strconv.ParseBool), value(p, "every-update", strconv.ParseBool), value(p, "fail-first", strconv.ParseBool)
	return p.err
}

func (s *scenario) parseFault(p *pairs) error {
	f := fault{At: value(p, "at", time.ParseDuration), Kind: value(p, "kind", parseKind), Node: value(p, "node", strconv.Atoi), Point: p.values["point"],
		Behind: value(p, "behind", strconv.ParseBool), N: value(p, "n", strconv.Atoi), For: value(p, "for", time.ParseDuration)}
	s.Faults = append(s.Faults, f)
	return p.err
}
