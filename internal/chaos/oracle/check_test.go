package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const partitions = 2

// right makes a world in which everything went well, by processing the inputs one after the other.
func right(guarantee Guarantee) World {
	random := rand.New(rand.NewPCG(1, 2))
	w := World{Guarantee: guarantee, Jobs: []Job{job("words", false, random), job("sums", true, random)}}
	for p := range int32(partitions) {
		w.Offsets = append(w.Offsets, Offset{"in", p, 100, 100})
	}
	w.Producers = []Producers{{"node 1", 2, 2}}
	return w
}

func job(name string, rich bool, random *rand.Rand) Job {
	j := Job{Name: name, Rich: rich, Partitions: partitions}
	for i := range 60 {
		in := Input{ID: fmt.Sprintf("%s-%d", name, i), Partition: int32(i % partitions), Timestamp: int64(1000 + i - 3*(i%5))}
		if rich {
			in.Adds = []Add{{fmt.Sprintf("key-%d-%d", in.Partition, random.IntN(3)), 1 + random.Int64N(9)}}
		} else {
			for range 3 {
				in.Adds = append(in.Adds, Add{string(rune('a' + random.IntN(5))), 1})
			}
		}
		j.Inputs = append(j.Inputs, in)
	}
	j.Log = slices.Clone(j.Inputs)
	process(&j)
	return j
}

// process makes outputs, a store and a changelog from the log.
func process(j *Job) {
	tallies := map[string]*tally{}
	offsets := map[int32]int64{}
	j.Outputs = nil
	for _, in := range j.Log {
		for _, a := range in.Adds {
			if tallies[a.Key] == nil {
				tallies[a.Key] = &tally{}
			}
			t := tallies[a.Key]
			t.add(a.Amount, in.Timestamp, in.ID, j.Rich)
			p := home(a.Key)
			j.Outputs = append(j.Outputs, Output{Entry{a.Key, t.Value, t.timestamp}, p, offsets[p], in.ID})
			offsets[p]++
		}
	}
	j.Seen = slices.Clone(j.Outputs)
	j.Stores, j.Changelog = nil, nil
	for p := range int32(partitions) {
		s := Shard{Node: fmt.Sprint("node ", p+1), Partition: p}
		for key, t := range tallies {
			if home(key) == p {
				s.Entries = append(s.Entries, Entry{key, t.Value, t.timestamp})
			}
		}
		slices.SortFunc(s.Entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
		j.Stores = append(j.Stores, s)
		j.Changelog = append(j.Changelog, Shard{Partition: p, Entries: slices.Clone(s.Entries)})
	}
}

func home(key string) int32 { return int32(key[len(key)-1]) % partitions }

func TestARightWorldHasNoViolation(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		if found := Check(right(g)); len(found) > 0 {
			t.Errorf("%s: %v", g, found)
		}
	}
}

// A record that is read before another one of the same key in another partition explains the sums as well.
func TestInputPartitionsMayInterleaveInAnyWay(t *testing.T) {
	w := right(ExactlyOnce)
	j := &w.Jobs[0]
	log := j.Log
	slices.SortStableFunc(j.Log, func(a, b Input) int { return int(b.Partition - a.Partition) })
	process(j)
	j.Log = log
	if found := Check(w); len(found) > 0 {
		t.Error(found)
	}
}

// wrongs are worlds that went wrong in one way. Each must be refused by the rule that it names; relaxed says that
// at_least_once allows it.
var wrongs = []struct {
	name    string
	rule    Rule
	relaxed bool
	spoil   func(w *World)
}{
	{"a fed record is not in the log", InputLost, false, func(w *World) { cut(&w.Jobs[0].Log, 7) }},
	{"the last fed record is not in the log", InputLost, false, func(w *World) { cut(&w.Jobs[1].Log, 59) }},
	{"a fed record is in the log twice", InputDoubled, false, func(w *World) { double(&w.Jobs[0].Log, 7) }},
	{"the log has one record more", InputDoubled, false, func(w *World) { double(&w.Jobs[1].Log, 59) }},
	{"a fed record has another time in the log", InputChanged, false, func(w *World) { w.Jobs[0].Log[7].Timestamp++ }},
	{"a fed record has other words in the log", InputChanged, false, func(w *World) {
		w.Jobs[0].Log[7].Adds = []Add{{"a", 1}}
	}},

	{"an output is lost", Lost, false, func(w *World) { cut(&w.Jobs[0].Outputs, 20) }},
	{"the last output is lost", Lost, false, func(w *World) { cut(&w.Jobs[1].Outputs, 59) }},
	{"every output of a key is lost", Lost, false, func(w *World) {
		key := w.Jobs[1].Outputs[0].Key
		w.Jobs[1].Outputs = slices.DeleteFunc(w.Jobs[1].Outputs, func(o Output) bool { return o.Key == key })
	}},
	{"an output is there twice", Doubled, true, func(w *World) { double(&w.Jobs[1].Outputs, 20) }},
	{"an input is counted twice, and all that follows agrees with it", Doubled, true, func(w *World) {
		log := w.Jobs[1].Log
		double(&w.Jobs[1].Log, 20)
		process(&w.Jobs[1])
		w.Jobs[1].Log = log
	}},
	{"an output names no input", Invented, false, func(w *World) { w.Jobs[0].Outputs[20].ID = "nobody" }},
	{"an output has a key that nobody fed", Invented, false, func(w *World) { w.Jobs[0].Outputs[20].Key = "zz" }},
	{"two inputs of a partition are taken up in the wrong order", Order, true, func(w *World) {
		log := slices.Clone(w.Jobs[1].Log)
		a, b := 0, 0
		for i := range log {
			for k := i + 1; k < len(log) && b == 0; k++ {
				if log[i].Adds[0].Key == log[k].Adds[0].Key {
					a, b = i, k
				}
			}
		}
		w.Jobs[1].Log[a], w.Jobs[1].Log[b] = w.Jobs[1].Log[b], w.Jobs[1].Log[a]
		process(&w.Jobs[1])
		w.Jobs[1].Log = log
	}},
	{"an output is too high", Sum, true, func(w *World) { w.Jobs[0].Outputs[30].Value.Sum++ }},
	{"an output is too low", Sum, true, func(w *World) { w.Jobs[1].Outputs[30].Value.Sum-- }},
	{"an output says that another input was the last", Sum, true, func(w *World) { w.Jobs[1].Outputs[30].Value.Last = "nobody" }},
	{"an output has the wrong time", Time, true, func(w *World) { w.Jobs[1].Outputs[30].Timestamp++ }},
	{"a key's outputs are in two partitions", Scatter, false, func(w *World) {
		w.Jobs[0].Outputs[30].Partition = 1 - w.Jobs[0].Outputs[30].Partition
	}},

	{"what was seen is gone", SeenUndone, false, func(w *World) { cut(&w.Jobs[0].Outputs, 177) }},
	{"what was seen is another record now", SeenUndone, false, func(w *World) { w.Jobs[0].Seen[9].Value.Sum++ }},
	{"what is there was never seen", SeenMissed, false, func(w *World) { cut(&w.Jobs[0].Seen, 9) }},

	{"nobody answers for a partition", Unserved, false, func(w *World) { cut(&w.Jobs[0].Stores, 1) }},
	{"two nodes answer for a partition", ServedTwice, false, func(w *World) { double(&w.Jobs[0].Stores, 1) }},
	{"a store is too high", StoreOver, true, func(w *World) {
		w.Jobs[0].Stores[0].Entries[0].Value.Sum++
		w.Jobs[0].Changelog[0].Entries[0].Value.Sum++
	}},
	{"a store is too low", StoreFold, false, func(w *World) {
		w.Jobs[0].Stores[0].Entries[0].Value.Sum--
		w.Jobs[0].Changelog[0].Entries[0].Value.Sum--
	}},
	{"a store says that another input was the last", StoreOver, true, func(w *World) {
		w.Jobs[1].Stores[0].Entries[0].Value.Last = "nobody"
		w.Jobs[1].Changelog[0].Entries[0].Value.Last = "nobody"
	}},
	{"a store has the wrong time", StoreOver, true, func(w *World) {
		w.Jobs[1].Stores[0].Entries[0].Timestamp--
		w.Jobs[1].Changelog[0].Entries[0].Timestamp--
	}},
	{"a store lacks a key", StoreFold, false, func(w *World) { cut(&w.Jobs[0].Stores[0].Entries, 0) }},
	{"a store has a key too many", StoreFold, false, func(w *World) {
		w.Jobs[0].Stores[0].Entries = append(w.Jobs[0].Stores[0].Entries, Entry{Key: "zz"})
	}},
	{"a key is in two partitions of a store", Scatter, false, func(w *World) {
		w.Jobs[0].Stores[0].Entries = append(w.Jobs[0].Stores[0].Entries, w.Jobs[0].Stores[1].Entries[0])
	}},
	{"a changelog is behind its store", StoreLog, false, func(w *World) { w.Jobs[1].Changelog[0].Entries[0].Value.Sum-- }},
	{"a changelog has another time than its store", StoreLog, false, func(w *World) { w.Jobs[1].Changelog[0].Entries[0].Timestamp-- }},
	{"a changelog lacks a key", StoreLog, false, func(w *World) { cut(&w.Jobs[1].Changelog[0].Entries, 0) }},
	{"a changelog has a key too many", StoreLog, false, func(w *World) {
		w.Jobs[1].Changelog[0].Entries = append(w.Jobs[1].Changelog[0].Entries, Entry{Key: "zz"})
	}},
	{"a changelog has a key in another partition", StoreLog, false, func(w *World) {
		w.Jobs[1].Changelog[0].Partition, w.Jobs[1].Changelog[1].Partition = 1, 0
	}},

	{"an offset is behind", Behind, false, func(w *World) { w.Offsets[1].Committed-- }},
	{"an offset is beyond the end", Behind, false, func(w *World) { w.Offsets[1].Committed++ }},
	{"nothing was committed", Behind, false, func(w *World) { w.Offsets[1].Committed = -1 }},
	{"a slot made a second producer", Producer, false, func(w *World) { w.Producers[0].Created++ }},
}

func cut[T any](all *[]T, i int)    { *all = slices.Delete(slices.Clone(*all), i, i+1) }
func double[T any](all *[]T, i int) { *all = slices.Insert(slices.Clone(*all), i, (*all)[i]) }

func TestEachWrongWorldIsRefused(t *testing.T) {
	for _, test := range wrongs {
		t.Run(test.name, func(t *testing.T) {
			w := right(ExactlyOnce)
			test.spoil(&w)
			found := Check(w)
			if !has(found, test.rule) {
				t.Errorf("no %s among %v", test.rule, found)
			}
			for _, v := range found {
				if v.Key == "" || v.Job == "" || v.Expected == "" || v.Found == "" {
					t.Errorf("the report leaves something out: %v", v)
				}
			}
			w.Guarantee = AtLeastOnce
			if found := Check(w); has(found, test.rule) == test.relaxed {
				t.Errorf("at_least_once allows it: %t, but the check says %v", test.relaxed, found)
			}
		})
	}
}

func has(found []Violation, rule Rule) bool {
	return slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == rule })
}

// Every rule is proven by a wrong world above.
func TestEachRuleHasAWrongWorld(t *testing.T) {
	proven := map[Rule]bool{}
	for _, w := range wrongs {
		proven[w.rule] = true
	}
	for _, r := range rules {
		if !proven[r] {
			t.Errorf("nothing shows that rule %s can fail", r)
		}
	}
	for r := range proven {
		if !slices.Contains(rules, r) {
			t.Errorf("rule %s is not in the list", r)
		}
	}
}

// What follows from one lost record is not listed for every later sum of its key.
func TestOneMistakeIsReportedOnce(t *testing.T) {
	w := right(ExactlyOnce)
	cut(&w.Jobs[1].Outputs, 0)
	cut(&w.Jobs[1].Seen, 0)
	if found := Check(w); len(found) != 2 {
		t.Errorf("one lost record gives %d violations: %v", len(found), found)
	}
}

func TestAViolationNamesWhatIsWrong(t *testing.T) {
	w := right(ExactlyOnce)
	w.Offsets[1].Committed = 40
	want := `violation offset: group key="in-1" expected 100, found 40`
	if found := Check(w); len(found) != 1 || found[0].String() != want {
		t.Errorf("got %v, want %s", found, want)
	}
}
