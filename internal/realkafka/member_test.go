//go:build realkafka

package realkafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/internal/realkafka"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
)

// addresses is an assignor whose user data is an address, and whose assignments tell every member all addresses.
type addresses struct {
	own   string
	round atomic.Uint64
}

func (*addresses) Name() string { return "addresses" }

func (a *addresses) UserData([]record.TopicPartition) []byte {
	return fmt.Appendf(nil, "%s#%d", a.own, a.round.Add(1))
}

// Assign keeps what is owned and deals out the rest.
func (*addresses) Assign(members []kafka.GroupMember, partitions map[string]int32) (map[string]kafka.GroupAssignment, error) {
	var all []string
	free := map[record.TopicPartition]bool{}
	for topic, n := range partitions {
		for p := range n {
			free[record.TopicPartition{Topic: topic, Partition: p}] = true
		}
	}
	share := (len(free) + len(members) - 1) / len(members)
	out := map[string]kafka.GroupAssignment{}
	for _, m := range members {
		address, _, _ := strings.Cut(string(m.UserData), "#")
		all = append(all, m.ID+"="+address)
		var a kafka.GroupAssignment
		for _, tp := range m.Owned {
			if len(a.Partitions) < share {
				a.Partitions = append(a.Partitions, tp)
			}
			delete(free, tp) // what is taken away is dealt out when it was given up
		}
		out[m.ID] = a
	}
	for _, m := range members {
		a := out[m.ID]
		for tp := range free {
			if len(a.Partitions) < share {
				a.Partitions = append(a.Partitions, tp)
				delete(free, tp)
			}
		}
		a.UserData = []byte(strings.Join(all, " "))
		out[m.ID] = a
	}
	return out, nil
}

// careful is addresses that can tell an assignment that was made without its own; deaf is one that never does.
type (
	careful struct{ addresses }
	deaf    struct{ addresses }
)

func (c *careful) Stale(id string, _ []record.TopicPartition, assignment []byte) bool {
	return !slices.Contains(strings.Fields(string(assignment)), id+"="+c.own)
}

func (*deaf) Stale(string, []record.TopicPartition, []byte) bool { return false }

// groupMember is a member with the books that its events make.
type groupMember struct {
	*kafka.Group
	inbox    *broker.Inbox
	assigned broker.Assigned
	answers  map[uint64]*broker.Error
	lost     []broker.Lost
	everDown bool
}

func join(t *testing.T, c *realkafka.Cluster, instance string, assignor kafka.Assignor) *groupMember {
	t.Helper()
	m := &groupMember{inbox: broker.NewInbox(), answers: map[uint64]*broker.Error{}}
	g, err := kafka.NewGroup(kafka.GroupConfig{
		Config: kafka.Config{Brokers: c.Brokers()}, Group: "members", InstanceID: instance, Topics: []string{"lines"}, Assignor: assignor,
		SessionTimeout: 6 * time.Second, HeartbeatInterval: 500 * time.Millisecond, RebalanceTimeout: 20 * time.Second,
	}, m.inbox.Put)
	if err != nil {
		t.Fatal(err)
	}
	m.Group = g
	t.Cleanup(func() { m.stop(t) })
	g.Start()
	return m
}

// stop ends the member as a killed process would: the group is told nothing.
func (m *groupMember) stop(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := m.Close(ctx, false); err != nil {
		t.Error(err)
	}
}

func (m *groupMember) take() {
	for _, e := range m.inbox.Poll(nil) {
		switch e := e.(type) {
		case broker.Assigned:
			m.assigned = e
		case broker.Revoking:
			m.Released(e.Generation, e.Partitions)
		case broker.Lost:
			m.lost = append(m.lost, e)
		case broker.OffsetsCommitted:
			m.answers[e.Token] = e.Err
		case broker.ConnectionChanged:
			m.everDown = m.everDown || !e.Up
		}
	}
}

func (m *groupMember) awaitAll(t *testing.T, what string, holds func() error) {
	t.Helper()
	await(t, what, func(context.Context) error {
		m.take()
		return holds()
	})
}

func has(m *groupMember, n int) func() error {
	return func() error {
		if len(m.assigned.Partitions) != n {
			return fmt.Errorf("it has %v", m.assigned.Partitions)
		}
		return nil
	}
}

func lines(t *testing.T, partitions int) *realkafka.Cluster {
	t.Helper()
	c := realkafka.For(t, 1)
	if out, err := c.Topics(t.Context(), "--create", "--topic", "lines", "--partitions", fmt.Sprint(partitions)); err != nil {
		t.Fatal(err, out)
	}
	return c
}

// A static member that comes back at another address. The broker hands it its predecessor's assignment and tells no leader,
// so an assignor that does not look stays unheard: that is the trap, and it is shown here too.
func TestStaticMemberAtANewAddressIsHeard(t *testing.T) {
	c := lines(t, 4)
	for _, test := range []struct {
		name  string
		again kafka.Assignor
		heard bool
	}{
		{"nobody looks", &deaf{addresses{own: "b:2"}}, false},
		{"it looks", &careful{addresses{own: "b:3"}}, true},
		{"it cannot tell", &addresses{own: "b:4"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			instances := strings.ReplaceAll(test.name, " ", "-")
			a := join(t, c, instances+"-a", &careful{addresses{own: "a:1"}})
			a.awaitAll(t, "a is assigned everything", has(a, 4))
			b := join(t, c, instances+"-b", &careful{addresses{own: "b:1"}})
			both := func() error { a.take(); b.take(); return errors.Join(has(a, 2)(), has(b, 2)()) }
			a.awaitAll(t, "they share", both)
			had := b.assigned
			b.stop(t)

			again := join(t, c, instances+"-b", test.again)
			again.awaitAll(t, "b has its partitions back", has(again, 2))
			sameTopics := func() bool {
				x, y := slices.Clone(had.Partitions), slices.Clone(again.assigned.Partitions)
				slices.SortFunc(x, record.TopicPartition.Compare)
				slices.SortFunc(y, record.TopicPartition.Compare)
				return slices.Equal(x, y)
			}
			if !sameTopics() {
				t.Errorf("it had %v and was given %v", had.Partitions, again.assigned.Partitions)
			}
			own := strings.Split(string(test.again.UserData(nil)), "#")[0]
			knows := func() error {
				a.take()
				if !strings.Contains(string(a.assigned.UserData), "="+own) {
					return fmt.Errorf("a knows %s", a.assigned.UserData)
				}
				return nil
			}
			if test.heard {
				again.awaitAll(t, "a knows where b is", knows)
				if len(a.lost)+len(again.lost) > 0 || len(a.assigned.Partitions) != 2 {
					t.Errorf("a was interrupted: it has %v, and lost %v", a.assigned.Partitions, a.lost)
				}
			} else {
				// Several heartbeats of both, each of which would have told of a rebalance.
				a.Commit(1, broker.Offsets{a.assigned.Partitions[0]: {At: 1}})
				for range 4 {
					heartbeats := time.NewTimer(500 * time.Millisecond)
					<-heartbeats.C
				}
				if err := knows(); err == nil {
					t.Error("the broker told the leader by itself: the trap is gone, and StaleAssignor with it")
				}
			}
			leave(t, a, again)
		})
	}
}

// leave empties the group for the next test.
func leave(t *testing.T, members ...*groupMember) {
	t.Helper()
	for _, m := range members {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := m.Close(ctx, true); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// coordinatorOf asks Kafka's own tool which broker coordinates a group.
func coordinatorOf(t *testing.T, c *realkafka.Cluster, group string) (id int) {
	t.Helper()
	text, err := c.Groups(t.Context(), "--describe", "--state", "--group", group)
	if err != nil {
		t.Fatal(err, text)
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == group {
			if _, err := fmt.Sscanf(f[2], "(%d)", &id); err == nil {
				return id
			}
		}
	}
	t.Fatal("no coordinator in", text)
	return 0
}

// The coordinator is killed, and its successor takes longer than the session. It counts sessions from zero: the member
// keeps its generation, and what it was committing arrives. (A single broker that is killed is another matter: it
// loads the group seconds before it opens its port, and has thrown out by then whose session is as short as this one.)
func TestMemberOutlivesItsCoordinator(t *testing.T) {
	c := realkafka.For(t, 3)
	if out, err := c.Topics(t.Context(), "--create", "--topic", "lines", "--partitions", "4"); err != nil {
		t.Fatal(err, out)
	}
	m := join(t, c, "", &addresses{own: "a"})
	m.awaitAll(t, "it is assigned everything", has(m, 4))
	before := m.assigned
	m.Commit(1, broker.Offsets{before.Partitions[0]: {At: 7}})
	m.awaitAll(t, "a first commit has arrived", m.committed(1))
	c.Kill(coordinatorOf(t, c, "members"))
	gone := time.Now()
	m.Commit(2, broker.Offsets{before.Partitions[0]: {At: 8}})
	m.awaitAll(t, "the commit has arrived", m.committed(2))
	if away := time.Since(gone); away < 6*time.Second {
		t.Fatalf("the coordinator was replaced after %s: the session was never in danger", away)
	} else {
		t.Logf("without a coordinator for %s", away.Round(100*time.Millisecond))
	}
	if len(m.lost) > 0 || m.assigned.Generation != before.Generation || m.assigned.MemberID != before.MemberID || m.everDown {
		t.Errorf("it was %q in generation %d and is %q in %d; lost %v, down %t", before.MemberID, before.Generation, m.assigned.MemberID, m.assigned.Generation, m.lost, m.everDown)
	}
}

func (m *groupMember) committed(token uint64) func() error {
	return func() error {
		if err, ok := m.answers[token]; !ok || err != nil {
			return fmt.Errorf("answered %t: %v", ok, err)
		}
		return nil
	}
}

// transactor writes values in transactions.
type transactor struct {
	sarama.SyncProducer
	t *testing.T
}

func newTransactor(t *testing.T, c *realkafka.Cluster) *transactor {
	t.Helper()
	conf := sarama.NewConfig()
	conf.Version = sarama.V4_1_0_0
	conf.Net.MaxOpenRequests = 1
	conf.Producer.Idempotent, conf.Producer.Return.Successes, conf.Producer.Return.Errors = true, true, true
	conf.Producer.RequiredAcks = sarama.WaitForAll
	conf.Producer.Transaction.ID = "transactor"
	p, err := sarama.NewSyncProducer(c.Brokers(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return &transactor{p, t}
}

func (x *transactor) open(n int) {
	x.t.Helper()
	if err := x.BeginTxn(); err != nil {
		x.t.Fatal(err)
	}
	for i := range n {
		if _, _, err := x.SendMessage(&sarama.ProducerMessage{Topic: "lines", Value: sarama.StringEncoder(fmt.Sprint(i))}); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *transactor) end(commit bool) {
	x.t.Helper()
	end := x.AbortTxn
	if commit {
		end = x.CommitTxn
	}
	if err := end(); err != nil {
		x.t.Fatal(err)
	}
}

var line0 = record.TopicPartition{Topic: "lines"}

// Case H20 on a real broker, whose markers come a few milliseconds after the commit: 10 records and their marker, 5
// aborted ones and theirs. A reader of committed records ends at 17 with a lag of 0, and its committed position is that.
func TestH20LagReachesZeroBehindMarkers(t *testing.T) {
	c := lines(t, 1)
	x := newTransactor(t, c)
	in := broker.NewInbox()
	f, err := kafka.NewFetcher(kafka.FetcherConfig{Config: kafka.Config{Brokers: c.Brokers()}, ReadCommitted: true}, in.Put)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var at, lag int64
	records := 0
	until := func(position int64) {
		t.Helper()
		await(t, fmt.Sprintf("at %d without a lag", position), func(context.Context) error {
			for _, e := range in.Poll(nil) {
				if e, ok := e.(broker.Fetched); ok {
					for _, b := range e.Batches {
						at, lag, records = b.Next, b.LastStable-b.Next, records+len(b.Records)
						f.Credit(line0, b.Bytes)
					}
				}
			}
			if at != position || lag != 0 {
				return fmt.Errorf("at %d, lag %d", at, lag)
			}
			return nil
		})
	}
	f.Start(line0, 0)
	x.open(10)
	x.end(true)
	until(11)
	x.open(5)
	until(11) // behind the open transaction nothing can be read, so it is no lag
	x.end(false)
	until(17)
	if records != 10 {
		t.Errorf("%d records were read of 10 committed ones", records)
	}
	m := join(t, c, "", &addresses{own: "a"})
	m.awaitAll(t, "assigned", has(m, 1))
	m.Commit(1, broker.Offsets{line0: {At: at}})
	m.awaitAll(t, "committed", m.committed(1))
	out, err := c.Groups(t.Context(), "--describe", "--group", "members")
	if err != nil || !slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
		fields := strings.Fields(line)
		return len(fields) > 5 && slices.Equal(fields[1:6], []string{"lines", "0", "17", "17", "0"})
	}) {
		t.Errorf("Kafka's own tool sees no partition at 17 of 17 with a lag of 0: %v\n%s", err, out)
	}
}

// The high watermark is taken while a transaction is open. Reading to it must not stop at the last stable offset.
func TestRestoreMustNotStopEarly(t *testing.T) {
	c := lines(t, 1)
	x := newTransactor(t, c)
	x.open(10)
	x.end(true)
	x.open(10)
	l, err := kafka.NewChangelog(kafka.Config{Brokers: c.Brokers()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ends, err := l.Ends(t.Context(), []record.TopicPartition{line0})
	if err != nil || ends[line0].HighWatermark != 21 {
		t.Fatal(ends, err)
	}
	var records atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- l.Read(t.Context(), line0, 0, 21, true, func(b broker.Batch) error {
			records.Add(int64(len(b.Records)))
			return nil
		})
	}()
	await(t, "the first transaction is read", func(context.Context) error {
		if n := records.Load(); n != 10 {
			return fmt.Errorf("%d records", n)
		}
		return nil
	})
	select {
	case err := <-ended:
		t.Fatalf("it stopped at the last stable offset: %v", err)
	case <-time.After(time.Second):
	}
	x.end(true)
	if err := <-ended; err != nil || records.Load() != 20 {
		t.Fatalf("%d records: %v", records.Load(), err)
	}
}

// A broker that knows users, each mechanism of SASL, right and wrong passwords. The embedded broker drops who is wrong; a
// real one says so, and that has to come out as what it is.
func TestUsersAreLetInAndRefused(t *testing.T) {
	const plain = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"admin\" password=\"a\" user_admin=\"a\" user_me=\"p=w,\";"
	const scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	c := realkafka.For(t, 1,
		realkafka.Setting("listener.security.protocol.map", "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"),
		realkafka.Setting("inter.broker.listener.name", "PLAINTEXT"),
		realkafka.Setting("sasl.mechanism.inter.broker.protocol", "PLAIN"),
		realkafka.Setting("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"),
		realkafka.Setting("listener.name.plaintext.plain.sasl.jaas.config", plain),
		realkafka.Setting("listener.name.plaintext.scram-sha-256.sasl.jaas.config", scram),
		realkafka.Setting("listener.name.plaintext.scram-sha-512.sasl.jaas.config", scram))
	as := func(mechanism, password string) kafka.Config {
		return kafka.Config{Brokers: c.Brokers(), User: "me", Password: password, Mechanism: mechanism}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := kafka.Reach(ctx, as("PLAIN", "p=w,")); err != nil {
		t.Fatal(err)
	}
	conf := sarama.NewConfig()
	conf.Version = sarama.V4_1_0_0
	conf.Net.SASL.Enable, conf.Net.SASL.User, conf.Net.SASL.Password = true, "admin", "a"
	admin, err := sarama.NewClusterAdmin(c.Brokers(), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	// One at a time: a broker refuses to change a user twice in one request.
	for iterations, mechanism := range map[int32]sarama.ScramMechanismType{4096: sarama.SCRAM_MECHANISM_SHA_256, 8192: sarama.SCRAM_MECHANISM_SHA_512} {
		results, err := admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{
			{Name: "me", Mechanism: mechanism, Iterations: iterations, Salt: []byte("pepper"), Password: []byte("p=w,")},
		})
		if err != nil || len(results) != 1 || results[0].ErrorCode != sarama.ErrNoError {
			t.Fatal(results, err)
		}
	}
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		await(t, mechanism+" lets the user in", func(ctx context.Context) error { return kafka.Reach(ctx, as(mechanism, "p=w,")) })
		var refused *broker.Error
		if err := kafka.Reach(ctx, as(mechanism, "wrong")); !errors.As(err, &refused) || refused.Class != broker.Fatal || refused.Code != 58 || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v", mechanism, err)
		}
	}
}
