//go:build realkafka

package realkafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/internal/realkafka"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
)

// until polls a condition that a broker brings about by itself.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !f() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("never: ", what)
		}
	}
}

// ask makes one request to the first broker that is up.
func ask[T any](t *testing.T, c *realkafka.Cluster, request func(*sarama.Broker) (T, error)) T {
	t.Helper()
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V4_3_1_0
	var last error
	for _, addr := range c.Brokers() {
		b := sarama.NewBroker(addr)
		if last = b.Open(cfg); last != nil {
			continue
		}
		answer, err := request(b)
		_ = b.Close()
		if last = err; err == nil {
			return answer
		}
	}
	t.Fatal(last)
	panic("unreachable")
}

// state is what the transaction coordinator says of an id; empty if it does not know it. A test that uses it has one broker.
func state(t *testing.T, c *realkafka.Cluster, id string) string {
	t.Helper()
	answer := ask(t, c, func(b *sarama.Broker) (*sarama.DescribeTransactionsResponse, error) {
		return b.DescribeTransactions(&sarama.DescribeTransactionsRequest{TransactionalIDs: []string{id}})
	})
	if s := answer.TransactionStates[0]; s.ErrorCode == sarama.ErrNoError {
		return s.TransactionState
	}
	return ""
}

// trap is one of the things that a real broker does to a transaction, on a cluster that it shares with others and with a
// topic of its own.
type trap struct {
	*testing.T
	c     *realkafka.Cluster
	topic string
}

func (t trap) out(partition int32) record.TopicPartition {
	return record.TopicPartition{Topic: t.topic, Partition: partition}
}

func (t trap) producer(id string, change ...func(*kafka.ProducerConfig)) *producer {
	return newProducer(t.T, t.c, id, change...)
}

// The traps of a real broker: none of them loses or doubles a record, and the object goes on after each.
func TestTraps(t *testing.T) {
	c := realkafka.For(t, 1)
	for name, run := range map[string]func(trap){
		"TransactionTimedOutRecoversOnTheSameObject": timedOut,
		"ZombieDoesNotHurtTheOwner":                  zombie,
		"FencedProducerComesBackOnlyByTakingOver":    fenced,
		"StaleMemberDoesNotCommit":                   staleMember,
		"UnknownTopicCostsItsRecordsOnly":            unknownTopic,
		"TopicDeletedInMidTransaction":               deletedTopic,
		"RecordErrorsLeaveTheTransactionUsable":      recordErrors,
		"TransactionsFollowEachOtherWithoutMixing":   following,
	} {
		t.Run(name, func(t *testing.T) {
			topic := strings.ToLower(name)
			newTopic(t, c, topic, nil)
			run(trap{t, c, topic})
		})
	}
}

// A transaction that was open for too long is aborted by the coordinator. Its producer cannot tell that from a fence, asks,
// and goes on, the same object; neither the commit nor a late batch gets anything into the log.
func timedOut(t trap) {
	for i, stalled := range []func(p *producer) *broker.Error{
		func(p *producer) *broker.Error { return p.commit(at(t.out(2), 1), outsider).Err },
		func(p *producer) *broker.Error {
			p.token++
			p.Amend(p.token, []broker.Outgoing{{To: t.out(0), Record: record.Raw{Key: []byte("k"), Value: []byte("late")}}})
			return heard[broker.Flushed](p).Err
		},
		func(p *producer) *broker.Error {
			p.token++
			p.Amend(p.token, []broker.Outgoing{{To: t.out(2), Record: record.Raw{Key: []byte("k"), Value: []byte("late")}}})
			return heard[broker.Flushed](p).Err
		},
	} {
		id := fmt.Sprint("timed-out-", i)
		p := t.producer(id, func(c *kafka.ProducerConfig) { c.TransactionTimeout = 3 * time.Second })
		p.must(t.out(0), fmt.Sprint("before-", i))
		p.put(t.out(0), "lost")
		if f := p.flush(); f.Err != nil {
			t.Fatal(f.Err)
		}
		until(t.T, "the coordinator aborts it", func() bool { return state(t.T, t.c, id) == "CompleteAbort" })
		if err := stalled(p); err == nil || err.Class != broker.Abort {
			t.Fatalf("%d: %v", i, err)
		}
		if a := p.abort(); a.Err != nil {
			t.Fatal(a.Err)
		}
		p.must(t.out(0), fmt.Sprint("after-", i))
		if got := p.Counts(); got.Reinits != 1 || got.Fenced != 0 {
			t.Errorf("%+v", got)
		}
	}
	same(t.T, committed(t.T, t.c, t.out(0)), strings.Fields("before-0 after-0 before-1 after-1 before-2 after-2"))
	same(t.T, committed(t.T, t.c, t.out(2)), nil)
}

// Somebody else has the id and a transaction open. The zombie's re-init would abort it (it is answered 51, and the owner is
// fenced); so the zombie looks first, says that it is fenced, and the owner commits.
func zombie(t trap) {
	zombie := t.producer("shared")
	zombie.must(t.out(0), "zombie-before")
	zombie.put(t.out(0), "zombie-open")
	if f := zombie.flush(); f.Err != nil {
		t.Fatal(f.Err)
	}
	owner := t.producer("shared")
	owner.put(t.out(1), "owner")
	if f := owner.flush(); f.Err != nil {
		t.Fatal(f.Err)
	}
	if e := zombie.commit(at(t.out(2), 9), outsider); e.Err == nil || e.Err.Class != broker.Abort {
		t.Fatalf("%v", e.Err)
	}
	if a := zombie.abort(); a.Err == nil || a.Err.Class != broker.Migrated {
		t.Fatalf("%v", a.Err)
	}
	if e := owner.commit(at(t.out(2), 1), outsider); e.Err != nil {
		t.Fatal(e.Err)
	}
	owner.must(t.out(1), "owner-again")
	same(t.T, committed(t.T, t.c, t.out(0)), []string{"zombie-before"})
	same(t.T, committed(t.T, t.c, t.out(1)), []string{"owner", "owner-again"})
}

// After a fence only a take-over helps, and only the second abort is one: the first says that the tasks are gone.
func fenced(t trap) {
	a, b := t.producer("ping"), t.producer("other")
	a.must(t.out(0), "a1")
	a.put(t.out(0), "lost")
	if f := a.flush(); f.Err != nil {
		t.Fatal(f.Err)
	}
	b.token++
	b.Fence(b.token, "ping")
	if f := heard[broker.Fenced](b); f.Err != nil {
		t.Fatal(f.Err)
	}
	same(t.T, committed(t.T, t.c, t.out(0)), []string{"a1"}) // the open transaction is over: nothing hides what comes
	if e := a.commit(at(t.out(2), 9), outsider); e.Err == nil || e.Err.Class != broker.Abort {
		t.Fatalf("%v", e.Err)
	}
	if r := a.abort(); r.Err == nil || r.Err.Class != broker.Migrated {
		t.Fatalf("%v", r.Err)
	}
	if r := a.abort(); r.Err != nil {
		t.Fatal(r.Err)
	}
	a.must(t.out(0), "a2")
	if got := a.Counts(); got.Fenced != 1 || got.Reinits != 1 {
		t.Errorf("%+v", got)
	}
	same(t.T, committed(t.T, t.c, t.out(0)), []string{"a1", "a2"})
}

// A generation that is over, an unknown member and another process's instance id: the group does not take the offsets, so nothing is committed, and the
// producer goes on under the same epoch.
func staleMember(t trap) {
	p := t.producer("stale")
	p.must(t.out(0), "before")
	for _, of := range []struct {
		broker.Membership
		code int16
	}{
		{broker.Membership{Group: "unknown", Generation: 7, MemberID: "m"}, 22},
		{broker.Membership{Group: "g", Generation: 1, MemberID: "m"}, 25},
		{broker.Membership{Group: "g", Generation: 1}, 25},
	} {
		p.put(t.out(0), "lost")
		if f := p.flush(); f.Err != nil {
			t.Fatal(f.Err)
		}
		e := p.commit(at(t.out(2), 99), of.Membership)
		if e.Err == nil || e.Err.Class != broker.Migrated {
			t.Fatalf("%+v: %v", of, e.Err)
		}
		t.Log(e.Err)
		if a := p.abort(); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	p.must(t.out(0), "after")
	if got := p.Counts(); got.Reinits != 0 || got.Aborted != 3 {
		t.Errorf("%+v", got)
	}
	same(t.T, committed(t.T, t.c, t.out(0)), []string{"before", "after"})
}

// deleteTopic deletes a topic and waits until brokers say that they do not know it.
func deleteTopic(t *testing.T, c *realkafka.Cluster, name string) {
	t.Helper()
	a, err := kafka.NewAdmin(kafka.Config{Brokers: c.Brokers()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := a.DeleteTopics(ctx, name); err != nil {
		t.Fatal(err)
	}
	until(t, "the topic is gone", func() bool {
		infos, err := a.Topics(ctx, name)
		_, there := infos[name]
		return err == nil && (!there || infos[name].Partitions == 0)
	})
}

// written is the high watermark of a partition: what was appended to it, committed or not.
func written(t trap, tp record.TopicPartition) int64 {
	t.Helper()
	a, err := kafka.NewAdmin(kafka.Config{Brokers: t.c.Brokers()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ends, err := a.Ends(ctx, []record.TopicPartition{tp}, false)
	if err != nil {
		t.Fatal(err)
	}
	return ends[tp].HighWatermark
}

func hasty(c *kafka.ProducerConfig) { c.DeliveryTimeout = 3 * time.Second }

// A topic that is gone before its partition is added: the other partitions of the same request are added without it, its
// records are refused, and the transaction commits.
func unknownTopic(t trap) {
	gone := record.TopicPartition{Topic: t.topic + "-gone"}
	newTopic(t.T, t.c, gone.Topic, nil)
	p := t.producer("unknown", hasty)
	p.must(gone, "there")
	deleteTopic(t.T, t.c, gone.Topic)
	p.put(gone, "refused")
	p.put(t.out(0), "good")
	f := p.flush()
	if f.Err != nil || len(f.Refused) != 1 || f.Refused[0].Source != gone || f.Refused[0].Err.Class != broker.Record || string(f.Refused[0].Record.Value) != "refused" {
		t.Fatalf("%+v", f)
	}
	if e := p.commit(at(t.out(2), 1), outsider); e.Err != nil {
		t.Fatal(e.Err)
	}
	p.must(t.out(0), "next")
	same(t.T, committed(t.T, t.c, t.out(0)), []string{"good", "next"})
}

// The same for a topic that is deleted when the transaction has written to it already.
func deletedTopic(t trap) {
	gone := record.TopicPartition{Topic: t.topic + "-gone"}
	newTopic(t.T, t.c, gone.Topic, nil)
	p := t.producer("deleted", hasty, func(c *kafka.ProducerConfig) { c.BatchBytes = 10 })
	p.put(gone, "there", "sealed")
	p.put(t.out(0), "good")
	until(t.T, "the first batch is written", func() bool { return written(t, gone) > 0 })
	deleteTopic(t.T, t.c, gone.Topic)
	p.put(gone, "refused")
	p.put(t.out(0), "also good")
	f := p.flush()
	if f.Err != nil || len(f.Refused) == 0 {
		t.Fatalf("%+v", f)
	}
	if e := p.commit(at(t.out(2), 1), outsider); e.Err != nil {
		t.Fatal(e.Err)
	}
	p.must(t.out(0), "next")
	same(t.T, committed(t.T, t.c, t.out(0)), []string{"good", "also good", "next"})
}
func TestExpiredTransactionalIDGetsANewProducerID(t *testing.T) {
	c := realkafka.For(t, 1, realkafka.Setting("transactional.id.expiration.ms", "2000"),
		realkafka.Setting("transaction.remove.expired.transaction.cleanup.interval.ms", "500"))
	newTopic(t, c, "out", nil)
	p := newProducer(t, c, "expired")
	p.must(out(0), "before")
	until(t, "the id expires", func() bool { return state(t, c, "expired") == "" })
	p.put(out(0), "lost")
	if f := p.flush(); f.Err == nil || f.Err.Class != broker.Abort || f.Err.Code != 49 {
		t.Fatalf("%v", f.Err)
	}
	if a := p.abort(); a.Err != nil {
		t.Fatal(a.Err)
	}
	p.must(out(0), "after")
	same(t, committed(t, c, out(0)), []string{"before", "after"})
}

// A record that is too large, too old for its topic, or without a key for a compacted one, in the middle of a pipeline: it is refused alone, what
// was sent behind it is numbered anew, and the transaction commits without another epoch.
func recordErrors(t trap) {
	for name, test := range map[string]struct {
		configs map[string]string // set after the first transaction, when the producer knows the topic
		bad     record.Raw
		code    int16
	}{
		"large":   {map[string]string{"max.message.bytes": "1000"}, record.Raw{Key: []byte("k"), Value: make([]byte, 2000)}, 10},
		"old":     {map[string]string{"message.timestamp.before.max.ms": "3600000"}, record.Raw{Key: []byte("k"), Value: []byte("bad"), Timestamp: 1000}, 32},
		"keyless": {map[string]string{"cleanup.policy": "compact"}, record.Raw{Value: []byte("bad")}, 87},
	} {
		t.Run(name, func(tt *testing.T) {
			to := record.TopicPartition{Topic: t.topic + "-" + name}
			newTopic(tt, t.c, to.Topic, nil)
			p := newProducer(tt, t.c, to.Topic, func(c *kafka.ProducerConfig) { c.BatchBytes = 100 })
			p.must(to, "0")
			configure(tt, t.c, to.Topic, test.configs)
			now := time.Now().UnixMilli()
			for i := 1; i < 40; i++ {
				r := record.Raw{Key: []byte("k"), Value: fmt.Append(nil, i), Timestamp: now}
				if i == 20 {
					r = test.bad
					if r.Timestamp == 0 {
						r.Timestamp = now
					}
				}
				if err := p.Append(to, &r); err != nil {
					t.Fatal(err)
				}
			}
			f := p.flush()
			if f.Err != nil || len(f.Refused) != 1 || f.Refused[0].Err.Code != test.code || f.Refused[0].Err.Class != broker.Record || string(f.Refused[0].Record.Value) != string(test.bad.Value) {
				tt.Fatalf("%+v", f)
			}
			if e := p.commit(at(t.out(2), 1), outsider); e.Err != nil {
				tt.Fatal(e.Err)
			}
			p.must(to, "40")
			if got := p.Counts(); got.Reinits != 0 || got.Aborted != 0 || got.Committed != 3 {
				tt.Errorf("%+v", got)
			}
			var want []string
			for i := range 41 {
				if i != 20 {
					want = append(want, fmt.Sprint(i))
				}
			}
			same(tt, committed(tt, t.c, to), want)
		})
	}
}

// configure changes a topic's settings.
func configure(t *testing.T, c *realkafka.Cluster, topic string, configs map[string]string) {
	t.Helper()
	entries := map[string]sarama.IncrementalAlterConfigsEntry{}
	for k, v := range configs {
		entries[k] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &v}
	}
	answer := ask(t, c, func(b *sarama.Broker) (*sarama.IncrementalAlterConfigsResponse, error) {
		return b.IncrementalAlterConfigs(&sarama.IncrementalAlterConfigsRequest{Resources: []*sarama.IncrementalAlterConfigsResource{
			{Type: sarama.TopicResource, Name: topic, ConfigEntries: entries},
		}})
	})
	if r := answer.Resources[0]; r.ErrorCode != 0 {
		t.Fatal(r.ErrorMsg)
	}
	a, err := kafka.NewAdmin(kafka.Config{Brokers: c.Brokers()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	until(t, "the setting is in force", func() bool {
		has, err := a.TopicConfig(t.Context(), topic)
		for k, v := range configs {
			if err != nil || has[k] != v {
				return false
			}
		}
		return true
	})
}

// Records of one transaction after the other, appended while the one before is being committed: none joins the wrong one,
// none is lost as a duplicate of a sequence that was used before.
func following(t trap) {
	p := t.producer("follow", func(c *kafka.ProducerConfig) { c.BatchBytes = 200 })
	var want []string
	start := time.Now()
	for round := range 100 {
		var values []string
		for i := range 10 {
			values = append(values, fmt.Sprintf("%d-%d", round, i))
		}
		p.put(t.out(0), values...)
		p.put(t.out(1), values...)
		if f := p.flush(); f.Err != nil {
			t.Fatal(f.Err)
		}
		if round%5 == 4 {
			if a := p.abort(); a.Err != nil {
				t.Fatal(a.Err)
			}
			continue
		}
		want = append(want, values...)
		p.token++
		p.Commit(p.token, at(t.out(2), int64(round)), outsider)
		if round%3 == 0 {
			heard[broker.TransactionEnded](p)
		}
	}
	t.Logf("%s per transaction", time.Since(start)/100)
	same(t.T, committed(t.T, t.c, t.out(0)), want)
	same(t.T, committed(t.T, t.c, t.out(1)), want)
}
