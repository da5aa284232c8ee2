package kafka_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
)

func newAdmin(t *testing.T, addrs []string) *kafka.Admin {
	a, err := kafka.NewAdmin(kafka.Config{Brokers: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func TestCreateTopicsMakesWhatIsMissingAndChecksTheRest(t *testing.T) {
	c := groupCluster(t, 2)
	a := newAdmin(t, c.Addrs())
	ctx := within(t, patience)
	spec := func(name string, partitions int32, policy string) kafka.TopicSpec {
		return kafka.TopicSpec{Name: name, Partitions: partitions, Replication: -1, Configs: map[string]string{"cleanup.policy": policy}}
	}
	if err := a.CreateTopics(ctx, []kafka.TopicSpec{spec("log", 3, "compact"), spec("windows", 1, "compact,delete")}); err != nil {
		t.Fatal(err)
	}
	infos, err := a.Topics(ctx, "log", "windows", "missing")
	if err != nil || len(infos) != 2 || infos["log"].Partitions != 3 || infos["log"].ReplicationFactor != 3 || len(infos["log"].ID) != 32 {
		t.Fatalf("%+v %v", infos, err)
	}
	if err := a.CreateTopics(ctx, []kafka.TopicSpec{spec("log", 3, "compact"), spec("windows", 1, "delete, compact")}); err != nil {
		t.Fatalf("the same again: %v", err)
	}
	for what, bad := range map[string]kafka.TopicSpec{"partition": spec("log", 4, "compact"), "cleanup.policy": spec("windows", 1, "delete")} {
		var mismatch *kafka.TopicMismatchError
		err := a.CreateTopics(ctx, []kafka.TopicSpec{bad})
		if !errors.As(err, &mismatch) || mismatch.Topic != bad.Name || !strings.Contains(err.Error(), what) || mismatch.Fix == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if configs, err := a.TopicConfig(ctx, "log"); err != nil || configs["cleanup.policy"] != "compact" {
		t.Fatalf("%v %v", configs["cleanup.policy"], err)
	}
	if err := a.DeleteTopics(ctx, "log", "never-there"); err != nil {
		t.Fatal(err)
	}
	if infos, err := a.Topics(ctx, "log"); err != nil || len(infos) != 0 {
		t.Fatalf("%v %v", infos, err)
	}
	if info, err := a.Cluster(ctx); err != nil || info.Brokers != 3 || info.ID == "" {
		t.Fatalf("%+v %v", info, err)
	}
}

func TestCreateTopicsWaitsOutAMovingController(t *testing.T) {
	c := groupCluster(t, 1)
	fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.NotController, Count: 2})
	defer fault.Remove()
	if err := newAdmin(t, c.Addrs()).CreateTopics(within(t, patience), []kafka.TopicSpec{{Name: "n", Partitions: 1, Replication: -1}}); err != nil {
		t.Fatal(err)
	}
	if fault.Hits() != 2 {
		t.Fatalf("%d hits", fault.Hits())
	}
}

func TestEndsAndCommittedOffsets(t *testing.T) {
	c := groupCluster(t, 2)
	w := newWriter(t, c.Addrs(), nil)
	w.put(t, tp(0), 0, 10)
	w.flush(t)
	a := newAdmin(t, c.Addrs())
	ctx := within(t, patience)
	if err := a.DeleteRecords(ctx, map[record.TopicPartition]int64{tp(0): 4}); err != nil {
		t.Fatal(err)
	}
	ends, err := a.Ends(ctx, tps(0, 1), true)
	if err != nil || ends[tp(0)] != (kafka.Range{Start: 4, HighWatermark: 10}) || ends[tp(1)] != (kafka.Range{}) {
		t.Fatalf("%v %v", ends, err)
	}
	offsets, err := a.CommittedOffsets(ctx, "nobody", tps(0, 1))
	if err != nil || len(offsets) != 2 || offsets[tp(0)].At != broker.None {
		t.Fatalf("%v %v", offsets, err)
	}
}

func TestDeleteRecordsTellsARefusal(t *testing.T) {
	c := groupCluster(t, 2)
	w := newWriter(t, c.Addrs(), nil)
	w.put(t, tp(0), 0, 10)
	w.put(t, tp(1), 0, 10)
	w.flush(t)
	defer c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Partitions: []int32{0}, Err: kerr.PolicyViolation, Count: -1}).Remove()
	a := newAdmin(t, c.Addrs())
	ctx := within(t, patience)
	var refused *broker.Error
	err := a.DeleteRecords(ctx, map[record.TopicPartition]int64{tp(0): 5, tp(1): 5})
	if !errors.As(err, &refused) || refused.Code != 44 || refused.Source != tp(0) {
		t.Fatalf("%v", err)
	}
	if ends, err := a.Ends(ctx, tps(0, 1), false); err != nil || ends[tp(0)].Start != 0 || ends[tp(1)].Start != 5 {
		t.Fatalf("%v %v", ends, err)
	}
}

func TestReachNamesTheBrokersThatDoNotAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	var unreachable *kafka.UnreachableError
	if err := kafka.Reach(ctx, kafka.Config{Brokers: []string{addr}}); !errors.As(err, &unreachable) || !strings.Contains(err.Error(), addr) {
		t.Fatalf("%v", err)
	}
	c := groupCluster(t, 1)
	if err := kafka.Reach(within(t, patience), kafka.Config{Brokers: append([]string{addr}, c.Addrs()...)}); err != nil {
		t.Fatalf("the second seed answers: %v", err)
	}
}

func TestWhatAGroupHasLeft(t *testing.T) {
	c := groupCluster(t, 2)
	a := newAdmin(t, c.Addrs())
	ctx := within(t, patience)
	if exists, members, err := a.Group(ctx, "g"); exists || len(members) > 0 || err != nil {
		t.Fatalf("%t %v %v", exists, members, err)
	}
	if topics, err := a.GroupTopics(ctx, "g"); len(topics) > 0 || err != nil {
		t.Fatalf("%v %v", topics, err)
	}
	if err := a.CommitOffsets(ctx, "g", map[record.TopicPartition]int64{tp(1): 0}); err != nil {
		t.Fatal(err)
	}
	if exists, members, err := a.Group(ctx, "g"); !exists || len(members) > 0 || err != nil {
		t.Fatalf("%t %v %v", exists, members, err)
	}
	if topics, err := a.GroupTopics(ctx, "g"); !slices.Equal(topics, []string{"t"}) || err != nil {
		t.Fatalf("%v %v", topics, err)
	}
	if names, err := a.TopicNames(ctx); !slices.Contains(names, "t") || err != nil {
		t.Fatalf("%v %v", names, err)
	}
}
