//go:build realkafka

package realkafka_test

import (
	"errors"
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

// brokerOf is the number of the broker that coordinates a transactional id.
func brokerOf(t *testing.T, c *realkafka.Cluster, id string) int {
	t.Helper()
	answer := ask(t, c, func(b *sarama.Broker) (*sarama.FindCoordinatorResponse, error) {
		return b.FindCoordinator(&sarama.FindCoordinatorRequest{Version: 3, CoordinatorKey: id, CoordinatorType: sarama.CoordinatorTransaction})
	})
	if answer.Coordinator == nil {
		t.Fatal(answer.Err)
	}
	return int(answer.Coordinator.ID())
}

// leaderOf is the number of the broker that leads a partition.
func leaderOf(t *testing.T, c *realkafka.Cluster, tp record.TopicPartition) int {
	t.Helper()
	answer := ask(t, c, func(b *sarama.Broker) (*sarama.MetadataResponse, error) {
		return b.GetMetadata(sarama.NewMetadataRequest(sarama.V4_3_1_0, []string{tp.Topic}))
	})
	for _, p := range answer.Topics[0].Partitions {
		if p.ID == tp.Partition {
			return int(p.Leader)
		}
	}
	t.Fatal("no such partition")
	return 0
}

// The broker dies by kill -9 while a commit is under way. The same commit is repeated until it is answered, so the outcome is
// known, and another epoch comes before the next transaction; every record that was committed is there once.
func TestCommitOutlivesItsCoordinator(t *testing.T) {
	c := realkafka.For(t, 3)
	newTopic(t, c, "out", nil)
	p := newProducer(t, c, "dying")
	var want []string
	for round := range 2 {
		p.must(out(0), fmt.Sprint("before-", round))
		p.put(out(0), fmt.Sprint("during-", round))
		if f := p.flush(); f.Err != nil {
			t.Fatal(f.Err)
		}
		victim := brokerOf(t, c, "dying")
		start := time.Now()
		p.token++
		p.Commit(p.token, at(out(2), int64(round)), outsider)
		c.Kill(victim)
		e := heard[broker.TransactionEnded](p)
		t.Logf("broker %d was killed; the commit was answered after %s: %v", victim, time.Since(start).Round(time.Millisecond), e.Err)
		want = append(want, fmt.Sprint("before-", round))
		switch {
		case e.Err == nil:
			want = append(want, fmt.Sprint("during-", round))
		case e.Err.Class == broker.Abort:
			if a := p.abort(); a.Err != nil {
				t.Fatal(a.Err)
			}
		default:
			t.Fatal(e.Err)
		}
		p.must(out(0), fmt.Sprint("after-", round))
		want = append(want, fmt.Sprint("after-", round))
		if err := c.Restart(t.Context(), victim); err != nil {
			t.Fatal(err)
		}
	}
	same(t, committed(t, c, out(0)), want)
	if got := p.Counts(); got.CommitUnknown != 0 || got.Fenced != 0 {
		t.Errorf("%+v", got)
	}
}

// A partition's leader dies by kill -9 while batches are under way; then a replica is missing that acknowledgements wait for.
// The same batches go again under the same sequences: none is lost, doubled or out of order, and the transaction commits.
func TestReplicasLostAndRegained(t *testing.T) {
	c := realkafka.For(t, 3)
	newTopic(t, c, "out", map[string]string{"min.insync.replicas": "3"})
	p := newProducer(t, c, "replicas", func(c *kafka.ProducerConfig) {
		c.BatchBytes, c.DeliveryTimeout = 200, 2*time.Minute
		c.TransactionTimeout = 5 * time.Minute
	})
	p.must(out(0), "first")
	victim := leaderOf(t, c, out(0))
	want := []string{"first"}
	for i := range 200 {
		want = append(want, fmt.Sprint(i))
		p.put(out(0), fmt.Sprint(i))
		if i == 100 {
			c.Kill(victim)
		}
	}
	p.token++
	p.Flush(p.token)
	until(t, "another leader", func() bool { l := leaderOf(t, c, out(0)); return l > 0 && l != victim })
	if err := c.Restart(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	if f := heard[broker.Flushed](p); f.Err != nil || len(f.Refused) > 0 {
		t.Fatalf("%+v", f)
	}
	if e := p.commit(at(out(2), 1), outsider); e.Err != nil {
		t.Fatal(e.Err)
	}
	same(t, committed(t, c, out(0)), want)
}

// What is denied is Fatal; what is open is aborted, under the same epoch, and once it is allowed the same object goes on.
func TestDeniedTopicIsFatalAndCanBeAborted(t *testing.T) {
	c := realkafka.For(t, 1, realkafka.Setting("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
		realkafka.Setting("allow.everyone.if.no.acl.found", "true"))
	newTopic(t, c, "out", nil)
	newTopic(t, c, "denied", nil)
	denied := record.TopicPartition{Topic: "denied"}
	p := newProducer(t, c, "denied")
	p.must(denied, "before")
	acl := &sarama.AclCreation{
		Resource: sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: "denied", ResourcePatternType: sarama.AclPatternLiteral},
		Acl:      sarama.Acl{Principal: "User:ANONYMOUS", Host: "*", Operation: sarama.AclOperationWrite, PermissionType: sarama.AclPermissionDeny},
	}
	ask(t, c, func(b *sarama.Broker) (*sarama.CreateAclsResponse, error) {
		answer, err := b.CreateAcls(&sarama.CreateAclsRequest{Version: 1, AclCreations: []*sarama.AclCreation{acl}})
		if err == nil && answer.AclCreationResponses[0].Err != sarama.ErrNoError {
			err = errors.New(answer.AclCreationResponses[0].Err.Error())
		}
		return answer, err
	})
	until(t, "the topic is denied", func() bool {
		p.put(out(0), "lost")
		p.put(denied, "lost")
		f := p.flush()
		if f.Err != nil && (f.Err.Class != broker.Fatal || f.Err.Code != 29) {
			t.Fatal(f.Err)
		}
		if a := p.abort(); a.Err != nil {
			t.Fatal(a.Err)
		}
		return f.Err != nil
	})
	p.must(out(0), "good")
	same(t, committed(t, c, out(0)), strings.Fields("good"))
}
