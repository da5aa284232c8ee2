package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// lane is one partition as the owner sees it.
type lane struct {
	tp   record.TopicPartition
	open *batch
	// touched is the last interval that it was announced in, plus 1.
	touched uint64
	// keyed says that the topic is compacted: a record without a key would be refused by the broker, with its whole batch.
	keyed bool
}

func (p *Producer) lane(tp record.TopicPartition) (*lane, error) {
	lanes := p.lastLane
	if tp.Topic != p.last || lanes == nil {
		var err error
		if lanes, err = p.lanes(tp.Topic); err != nil {
			return nil, err
		}
		p.last, p.lastLane = tp.Topic, lanes
	}
	if tp.Partition < 0 || int(tp.Partition) >= len(lanes) {
		return nil, NewError(broker.OpProduce, int16(sarama.ErrUnknownTopicOrPartition), tp, fmt.Errorf("topic %q has %d partitions", tp.Topic, len(lanes)))
	}
	return lanes[tp.Partition], nil
}

// lanes looks a topic up the first time.
func (p *Producer) lanes(topic string) ([]*lane, error) {
	if lanes := p.topics[topic]; lanes != nil {
		return lanes, nil
	}
	n, err := p.Partitions(topic)
	if err != nil {
		return nil, err
	}
	keyed := p.sender.cluster.compacted(topic)
	var lanes []*lane
	for i := range n {
		lanes = append(lanes, &lane{tp: record.TopicPartition{Topic: topic, Partition: i}, keyed: keyed})
	}
	p.topics[topic] = lanes
	return lanes, nil
}

// check finds what no broker would take before it can cost a batch a round trip, or a transaction its life.
func (p *Producer) check(l *lane, r *record.Raw, size int) error {
	if size > p.cfg.MaxRecordBytes {
		return NewError(broker.OpProduce, int16(sarama.ErrMessageSizeTooLarge), l.tp, fmt.Errorf("a record of %d bytes is above the limit of %d", size, p.cfg.MaxRecordBytes))
	}
	if l.keyed && r.Key == nil {
		return NewError(broker.OpProduce, int16(sarama.ErrInvalidRecord), l.tp, errors.New("a record without a key cannot be written to a compacted topic"))
	}
	return nil
}

func recordSize(r *record.Raw) int {
	n := 24 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 8 + len(h.Key) + len(h.Value)
	}
	return n
}

// compacted says that a topic's cleanup.policy is known to hold compact. Where it may not be asked for, and where nobody
// answers, the broker's 87 tells in the end.
func (c *cluster) compacted(topic string) bool {
	request := &sarama.DescribeConfigsRequest{Version: 2, Resources: []*sarama.ConfigResource{
		{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"cleanup.policy"}},
	}}
	for _, addr := range c.addresses() {
		answer, err := call(c.link(addr), func(b *sarama.Broker) (*sarama.DescribeConfigsResponse, error) {
			return b.DescribeConfigs(request)
		})
		if err != nil {
			continue
		}
		return slices.ContainsFunc(answer.Resources, func(r *sarama.ResourceResponse) bool {
			return r.ErrorCode == 0 && slices.ContainsFunc(r.Configs, func(e *sarama.ConfigEntry) bool {
				return e.Name == "cleanup.policy" && strings.Contains(e.Value, "compact")
			})
		})
	}
	return false
}
