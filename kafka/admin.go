package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Admin looks at topics and makes them, on its own connections. Every error of its methods has a *broker.Error in its
// chain. One of class Retry means that ctx ended first: ctx's cause and the last reason are both in its chain, and the
// end of ctx is noticed at once, in the middle of a request too.
type Admin struct{ cluster *cluster }

// NewAdmin returns an Admin that has connected to nothing yet. Its error says what of the authentication in cfg cannot work.
func NewAdmin(cfg Config) (*Admin, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Admin{newCluster(cfg, "admin", cfg.requestTimeout()+30*time.Second, nil)}, nil
}

// Close ends its connections.
func (a *Admin) Close() { a.cluster.close() }

// ClusterInfo names a cluster.
type ClusterInfo struct {
	ID      string
	Brokers int
}

// TopicInfo is a topic as the cluster has it. ID tells a topic from one of the same name before or after it.
type TopicInfo struct {
	ID                string
	Partitions        int32
	ReplicationFactor int16
}

// TopicSpec is a topic to make. Replication -1 is the cluster's default.
type TopicSpec struct {
	Name        string
	Partitions  int32
	Replication int16
	Configs     map[string]string
}

// TopicMismatchError is an existing topic that does not fit.
type TopicMismatchError struct{ Topic, What, Has, Needs, Fix string }

// Error is one sentence with the fix.
func (e *TopicMismatchError) Error() string {
	return fmt.Sprintf("kafka: topic %q has %s %s and needs %s: %s", e.Topic, e.What, e.Has, e.Needs, e.Fix)
}

// Range is what a partition holds: the first offset, and the one after the last.
type Range struct{ Start, HighWatermark int64 }

// retry repeats f while its error is of class Retry and ctx lasts. What it returns when ctx ends has ctx's cause in its
// chain, and the last reason.
func retry(ctx context.Context, f func() error) error {
	for attempt := 0; ; attempt++ {
		err := f()
		var be *broker.Error
		if err == nil || !errors.As(err, &be) || be.Class != broker.Retry {
			return err
		}
		if !sleep(ctx, backoff(attempt)) {
			ended := *be
			if cause := context.Cause(ctx); !errors.Is(be, cause) {
				ended.Cause = errors.Join(cause, be.Cause)
			}
			return &ended
		}
	}
}

// Cluster names the cluster. It has the errors of every Admin method.
func (a *Admin) Cluster(ctx context.Context) (info ClusterInfo, err error) {
	err = retry(ctx, func() error {
		m, err := a.cluster.metadataUntil(ctx, nil)
		if err == nil {
			info.Brokers = len(m.Brokers)
			if m.ClusterID != nil {
				info.ID = *m.ClusterID
			}
		}
		return err
	})
	return info, err
}

// Topics looks topics up. One that does not exist is not in the answer; one that may not be seen is an error.
func (a *Admin) Topics(ctx context.Context, names ...string) (map[string]TopicInfo, error) {
	infos := map[string]TopicInfo{}
	if len(names) == 0 {
		return infos, nil
	}
	err := retry(ctx, func() error {
		m, err := a.cluster.metadataUntil(ctx, names)
		if err != nil {
			return err
		}
		for _, t := range m.Topics {
			switch t.Err {
			case sarama.ErrNoError:
				info := TopicInfo{ID: fmt.Sprintf("%x", t.Uuid[:]), Partitions: int32(len(t.Partitions))}
				if len(t.Partitions) > 0 {
					info.ReplicationFactor = int16(len(t.Partitions[0].Replicas))
				}
				infos[t.Name] = info
			case sarama.ErrUnknownTopicOrPartition:
			case sarama.ErrInvalidTopic:
				return NewError(broker.OpMetadata, int16(t.Err), record.TopicPartition{Topic: t.Name},
					fmt.Errorf("%w: topic name %q is not one that Kafka takes: use a-z A-Z 0-9 . _ - only", t.Err, t.Name))
			default:
				return NewError(broker.OpMetadata, int16(t.Err), record.TopicPartition{Topic: t.Name}, t.Err)
			}
		}
		return nil
	})
	return infos, err
}

// TopicNames are all topics that this user may see, in order. It has the errors of every Admin method.
func (a *Admin) TopicNames(ctx context.Context) (names []string, err error) {
	err = retry(ctx, func() error {
		answer, err := askAll(ctx, a.cluster, broker.OpMetadata, func(b *sarama.Broker) (*sarama.MetadataResponse, error) {
			return b.GetMetadata(sarama.NewMetadataRequest(version, nil))
		})
		if err != nil {
			return err
		}
		names = nil
		for _, t := range answer.Topics {
			names = append(names, t.Name)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// controller calls the cluster's controller; metadata names it anew on each call, since it moves.
func controllerCall[T any](ctx context.Context, a *Admin, op broker.Op, request func(*sarama.Broker) (T, error)) (T, error) {
	var zero T
	m, err := a.cluster.metadataUntil(ctx, nil)
	if err != nil {
		return zero, err
	}
	for _, b := range m.Brokers {
		if b.ID() == m.ControllerID {
			answer, err := callUntil(ctx, a.cluster.link(b.Addr()), request)
			if err != nil {
				return zero, asError(op, record.TopicPartition{}, err)
			}
			return answer, nil
		}
	}
	return zero, NewError(op, int16(sarama.ErrNotController), record.TopicPartition{}, sarama.ErrNotController)
}

// CreateTopics makes topics and waits until they can be written. One that exists, from before or because somebody else made
// it meanwhile (36), is checked: partition count and clean-up policy must fit, else the error is Fatal and its cause a
// *TopicMismatchError.
func (a *Admin) CreateTopics(ctx context.Context, specs []TopicSpec) error {
	_, err := a.CreateMissing(ctx, specs)
	return err
}

// CreateMissing is CreateTopics for a caller that will delete what it has made: made are the topics that were not there before
// and that nobody else has made meanwhile. After an error it has those that are known to be made by this call.
func (a *Admin) CreateMissing(ctx context.Context, specs []TopicSpec) (made []string, err error) {
	missing, err := a.CheckTopics(ctx, specs)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	var raced []TopicSpec
	if err := retry(ctx, func() (err error) { raced, err = a.create(ctx, missing); return err }); err != nil {
		return nil, err
	}
	for _, s := range missing {
		if !slices.ContainsFunc(raced, func(r TopicSpec) bool { return r.Name == s.Name }) {
			made = append(made, s.Name)
		}
	}
	if err := a.writable(ctx, missing); err != nil {
		return made, err
	}
	_, err = a.CheckTopics(ctx, raced)
	return made, err
}

// CheckTopics gives the topics that are not there, and makes none. Its error is about those that are, and do not fit, as
// CreateTopics has it.
func (a *Admin) CheckTopics(ctx context.Context, specs []TopicSpec) (missing []TopicSpec, err error) {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	infos, err := a.Topics(ctx, names...)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, s := range specs {
		if info, ok := infos[s.Name]; ok {
			errs = append(errs, a.fits(ctx, s, info))
		} else {
			missing = append(missing, s)
		}
	}
	return missing, errors.Join(errs...)
}

// create asks for topics, and says which of them somebody else has made meanwhile.
func (a *Admin) create(ctx context.Context, specs []TopicSpec) (raced []TopicSpec, err error) {
	details := map[string]*sarama.TopicDetail{}
	for _, s := range specs {
		d := &sarama.TopicDetail{NumPartitions: s.Partitions, ReplicationFactor: s.Replication, ConfigEntries: map[string]*string{}}
		for k, v := range s.Configs {
			d.ConfigEntries[k] = &v
		}
		details[s.Name] = d
	}
	answer, err := controllerCall(ctx, a, broker.OpCreateTopics, func(b *sarama.Broker) (*sarama.CreateTopicsResponse, error) {
		return b.CreateTopics(&sarama.CreateTopicsRequest{Version: 5, TopicDetails: details, Timeout: 15 * time.Second})
	})
	if err != nil {
		return nil, err
	}
	for _, s := range specs {
		e := answer.TopicErrors[s.Name]
		switch {
		case e == nil || e.Err == sarama.ErrNoError:
		case Classify(broker.OpCreateTopics, int16(e.Err)) == broker.Ignore:
			raced = append(raced, s)
		default:
			cause := error(e.Err)
			if e.ErrMsg != nil {
				cause = fmt.Errorf("%w: %s", e.Err, *e.ErrMsg)
			}
			return nil, NewError(broker.OpCreateTopics, int16(e.Err), record.TopicPartition{Topic: s.Name}, cause)
		}
	}
	return raced, nil
}

// writable waits until every partition of new topics has a leader that answers for it. A count of -1 is the cluster's
// default, and one that somebody else chose may be lower: the cluster is asked.
func (a *Admin) writable(ctx context.Context, specs []TopicSpec) error {
	var tps []record.TopicPartition
	for _, s := range specs {
		n, err := a.count(ctx, s.Name)
		if err != nil {
			return err
		}
		for i := range n {
			tps = append(tps, record.TopicPartition{Topic: s.Name, Partition: i})
		}
	}
	_, err := a.Ends(ctx, tps, false)
	return err
}

// count waits until a topic is known, and gives its partition count.
func (a *Admin) count(ctx context.Context, topic string) (n int32, err error) {
	err = retry(ctx, func() error {
		infos, err := a.Topics(ctx, topic)
		if err != nil {
			return err
		}
		if n = infos[topic].Partitions; n == 0 {
			return NewError(broker.OpMetadata, int16(sarama.ErrUnknownTopicOrPartition), record.TopicPartition{Topic: topic}, sarama.ErrUnknownTopicOrPartition)
		}
		return nil
	})
	return n, err
}

func (a *Admin) fits(ctx context.Context, s TopicSpec, info TopicInfo) error {
	if s.Partitions > 0 && info.Partitions != s.Partitions {
		return misfit(&TopicMismatchError{s.Name, "a partition count of", fmt.Sprint(info.Partitions), fmt.Sprint(s.Partitions),
			"the partition count of its source changed, or another application made it; reset the application or delete the topic"})
	}
	want := s.Configs["cleanup.policy"]
	if want == "" {
		return nil
	}
	configs, err := a.TopicConfig(ctx, s.Name)
	if err != nil {
		return err
	}
	if has := configs["cleanup.policy"]; !samePolicy(has, want) {
		return misfit(&TopicMismatchError{s.Name, "the cleanup.policy", has, want, "alter the topic's configuration"})
	}
	return nil
}

func misfit(e *TopicMismatchError) error {
	return &broker.Error{Op: broker.OpCreateTopics, Code: int16(sarama.ErrTopicAlreadyExists), Class: broker.Fatal, Source: record.TopicPartition{Topic: e.Topic}, Cause: e}
}

// samePolicy compares clean-up policies, which are sets: "compact,delete" is "delete,compact".
func samePolicy(a, b string) bool {
	set := func(s string) []string {
		s = strings.ReplaceAll(s, " ", "")
		parts := strings.Split(s, ",")
		slices.Sort(parts)
		return slices.Compact(parts)
	}
	return slices.Equal(set(a), set(b))
}

// TopicConfig reads a topic's settings. A topic that does not exist is an error of class Retry: it may come.
func (a *Admin) TopicConfig(ctx context.Context, name string) (map[string]string, error) {
	configs := map[string]string{}
	err := retry(ctx, func() error {
		answer, err := controllerCall(ctx, a, broker.OpDescribeConfigs, func(b *sarama.Broker) (*sarama.DescribeConfigsResponse, error) {
			return b.DescribeConfigs(&sarama.DescribeConfigsRequest{Version: 2, Resources: []*sarama.ConfigResource{{Type: sarama.TopicResource, Name: name}}})
		})
		if err != nil {
			return err
		}
		for _, r := range answer.Resources {
			if r.ErrorCode != 0 {
				return NewError(broker.OpDescribeConfigs, r.ErrorCode, record.TopicPartition{Topic: name}, errors.New(r.ErrorMsg))
			}
			for _, c := range r.Configs {
				configs[c.Name] = c.Value
			}
		}
		return nil
	})
	return configs, err
}

// Ends says what partitions hold; committed asks for the last stable offset in the place of the high watermark. One of them that
// has no leader until ctx ends is an error for all.
func (a *Admin) Ends(ctx context.Context, tps []record.TopicPartition, committed bool) (map[record.TopicPartition]Range, error) {
	ranges := map[record.TopicPartition]Range{}
	err := retry(ctx, func() error { return a.cluster.ends(ctx, tps, committed, ranges) })
	return ranges, err
}

func (c *cluster) ends(ctx context.Context, tps []record.TopicPartition, committed bool, ranges map[record.TopicPartition]Range) error {
	byLeader := map[*link][]record.TopicPartition{}
	for _, tp := range tps {
		to, _, ok := c.leaderOf(tp)
		if !ok {
			if _, err := c.metadataUntil(ctx, []string{tp.Topic}); err != nil {
				return err
			}
			if to, _, ok = c.leaderOf(tp); !ok {
				return NewError(broker.OpListOffsets, int16(sarama.ErrLeaderNotAvailable), tp, sarama.ErrLeaderNotAvailable)
			}
		}
		byLeader[to] = append(byLeader[to], tp)
	}
	for to, tps := range byLeader {
		starts, err := c.listOffsets(ctx, to, tps, sarama.OffsetOldest, committed)
		if err != nil {
			return err
		}
		ends, err := c.listOffsets(ctx, to, tps, sarama.OffsetNewest, committed)
		if err != nil {
			return err
		}
		for _, tp := range tps {
			ranges[tp] = Range{starts[tp], ends[tp]}
		}
	}
	return nil
}

func (c *cluster) listOffsets(ctx context.Context, to *link, tps []record.TopicPartition, at int64, committed bool) (map[record.TopicPartition]int64, error) {
	r := &sarama.OffsetRequest{Version: 4}
	if committed {
		r.IsolationLevel = sarama.ReadCommitted
	}
	for _, tp := range tps {
		r.AddBlock(tp.Topic, tp.Partition, at, 1)
	}
	answer, err := callUntil(ctx, to, func(b *sarama.Broker) (*sarama.OffsetResponse, error) { return b.GetAvailableOffsets(r) })
	if err != nil {
		for _, tp := range tps {
			c.forget(tp)
		}
		return nil, asError(broker.OpListOffsets, tps[0], err)
	}
	offsets := map[record.TopicPartition]int64{}
	for _, tp := range tps {
		block := answer.GetBlock(tp.Topic, tp.Partition)
		if block == nil || block.Err != sarama.ErrNoError {
			c.forget(tp)
			code := sarama.ErrUnknownTopicOrPartition
			if block != nil {
				code = block.Err
			}
			return nil, NewError(broker.OpListOffsets, int16(code), tp, code)
		}
		offsets[tp] = block.Offset
	}
	return offsets, nil
}

// CommittedOffsets reads a group's positions; At is broker.None where nothing was committed, a group that does not exist
// included. It has the errors of every Admin method.
func (a *Admin) CommittedOffsets(ctx context.Context, group string, tps []record.TopicPartition) (offsets broker.Offsets, err error) {
	err = retry(ctx, func() (err error) {
		to, err := a.cluster.coordinator(ctx, group)
		if err != nil {
			return err
		}
		offsets, err = fetchOffsets(ctx, to, group, tps, true)
		return err
	})
	return offsets, err
}

// fetchOffsets asks for a group's positions: with stable, code 88 (class Retry) while a transaction has some pending;
// without, what was committed before it.
func fetchOffsets(ctx context.Context, to *link, group string, tps []record.TopicPartition, stable bool) (broker.Offsets, error) {
	r := &sarama.OffsetFetchRequest{Version: 7, ConsumerGroup: group, RequireStable: stable}
	r.ZeroPartitions()
	for _, tp := range tps {
		r.AddPartition(tp.Topic, tp.Partition)
	}
	answer, err := callUntil(ctx, to, func(b *sarama.Broker) (*sarama.OffsetFetchResponse, error) { return b.FetchOffset(r) })
	if err != nil {
		return nil, asError(broker.OpOffsetFetch, record.TopicPartition{}, err)
	}
	offsets := broker.Offsets{}
	for _, tp := range tps {
		offsets[tp] = broker.Offset{At: broker.None}
	}
	if code := answer.Err; code != sarama.ErrNoError {
		if Classify(broker.OpOffsetFetch, int16(code)) == broker.Ignore {
			return offsets, nil
		}
		return nil, NewError(broker.OpOffsetFetch, int16(code), record.TopicPartition{}, code)
	}
	for _, tp := range tps {
		block := answer.GetBlock(tp.Topic, tp.Partition)
		if block == nil {
			continue
		}
		if block.Err != sarama.ErrNoError && Classify(broker.OpOffsetFetch, int16(block.Err)) != broker.Ignore {
			return nil, NewError(broker.OpOffsetFetch, int16(block.Err), tp, block.Err)
		}
		if block.Offset >= 0 {
			offsets[tp] = broker.Offset{At: block.Offset, Metadata: block.Metadata}
		}
	}
	return offsets, nil
}

// opDeleteTopics is known to this room only.
const opDeleteTopics broker.Op = "DeleteTopics"

// DeleteTopics deletes topics; ones that do not exist are passed over. The first that a broker refuses is the error; others may be
// gone all the same.
func (a *Admin) DeleteTopics(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	return retry(ctx, func() error {
		answer, err := controllerCall(ctx, a, opDeleteTopics, func(b *sarama.Broker) (*sarama.DeleteTopicsResponse, error) {
			return b.DeleteTopics(&sarama.DeleteTopicsRequest{Version: 4, Topics: names, Timeout: 15 * time.Second})
		})
		if err != nil {
			return err
		}
		for name, code := range answer.TopicErrorCodes {
			if code != sarama.ErrNoError && code != sarama.ErrUnknownTopicOrPartition {
				return NewError(opDeleteTopics, int16(code), record.TopicPartition{Topic: name}, code)
			}
		}
		return nil
	})
}

// DeleteRecords deletes what is below the given offsets. An offset below the log's start is done already. A partition
// that is refused (44: its topic is only compacted) does not keep the others from being done; the errors are joined.
func (a *Admin) DeleteRecords(ctx context.Context, before map[record.TopicPartition]int64) error {
	return retry(ctx, func() error {
		var errs []error
		byLeader := map[*link]map[string]*sarama.DeleteRecordsRequestTopic{}
		for tp, at := range before {
			to, _, ok := a.cluster.leaderOf(tp)
			if !ok {
				_, err := a.cluster.metadataUntil(ctx, []string{tp.Topic})
				return errors.Join(err, NewError(broker.OpDeleteRecords, int16(sarama.ErrNotLeaderForPartition), tp, sarama.ErrNotLeaderForPartition))
			}
			if byLeader[to] == nil {
				byLeader[to] = map[string]*sarama.DeleteRecordsRequestTopic{}
			}
			t := byLeader[to][tp.Topic]
			if t == nil {
				t = &sarama.DeleteRecordsRequestTopic{PartitionOffsets: map[int32]int64{}}
				byLeader[to][tp.Topic] = t
			}
			t.PartitionOffsets[tp.Partition] = at
		}
		for to, topics := range byLeader {
			answer, err := callUntil(ctx, to, func(b *sarama.Broker) (*sarama.DeleteRecordsResponse, error) {
				return b.DeleteRecords(&sarama.DeleteRecordsRequest{Version: 1, Topics: topics, Timeout: 10 * time.Second})
			})
			if err != nil {
				return asError(broker.OpDeleteRecords, record.TopicPartition{}, err)
			}
			for topic, t := range answer.Topics {
				for id, p := range t.Partitions {
					if p.Err != sarama.ErrNoError {
						tp := record.TopicPartition{Topic: topic, Partition: id}
						a.cluster.forget(tp)
						errs = append(errs, NewError(broker.OpDeleteRecords, int16(p.Err), tp, p.Err))
					}
				}
			}
		}
		return errors.Join(errs...)
	})
}

// CreatePartitions raises topics to the given partition counts. A count that is not higher is an error (code 37).
func (a *Admin) CreatePartitions(ctx context.Context, counts map[string]int32) error {
	wanted := map[string]*sarama.TopicPartition{}
	for topic, n := range counts {
		wanted[topic] = &sarama.TopicPartition{Count: n}
	}
	return retry(ctx, func() error {
		answer, err := controllerCall(ctx, a, broker.OpCreateTopics, func(b *sarama.Broker) (*sarama.CreatePartitionsResponse, error) {
			return b.CreatePartitions(&sarama.CreatePartitionsRequest{Version: 1, TopicPartitions: wanted, Timeout: 15 * time.Second})
		})
		if err != nil {
			return err
		}
		for topic, e := range answer.TopicPartitionErrors {
			if e.Err != sarama.ErrNoError {
				return NewError(broker.OpCreateTopics, int16(e.Err), record.TopicPartition{Topic: topic}, e.Err)
			}
		}
		return nil
	})
}
