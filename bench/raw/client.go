package raw

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// Client is a cluster of one broker.
type Client struct {
	address string
	admin   sarama.ClusterAdmin
}

// Dial connects to the broker at address. The caller closes the client.
func Dial(address string) (*Client, error) {
	admin, err := sarama.NewClusterAdmin([]string{address}, config())
	if err != nil {
		return nil, fmt.Errorf("no broker at %s: %w", address, err)
	}
	return &Client{address: address, admin: admin}, nil
}

// Close ends the connection; an error is of no use to anyone by then.
func (c *Client) Close() { c.admin.Close() }

func config() *sarama.Config {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.MaxVersion
	cfg.ClientID = "millrace-bench"
	return cfg
}

// connect opens one more connection, for one role.
func (c *Client) connect() (*sarama.Broker, error) {
	b := sarama.NewBroker(c.address)
	if err := b.Open(config()); err != nil {
		return nil, err
	}
	if ok, err := b.Connected(); !ok {
		return nil, fmt.Errorf("no broker at %s: %w", c.address, err)
	}
	return b, nil
}

// patiently tries until it works, for 15 seconds at most: what is made or deleted takes a moment to be known.
func patiently(try func() error) (err error) {
	for range 300 {
		if err = try(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// Create makes a topic and waits until each of its partitions has a leader. A topic of that name that is being deleted is
// waited for; one that stays is kept.
func (c *Client) Create(topic string, partitions int32) error {
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}
	err := patiently(func() error {
		err := c.admin.CreateTopic(topic, detail, false)
		if errors.Is(err, sarama.ErrTopicAlreadyExists) {
			_, err = c.Ends(topic)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	if err := patiently(func() error { _, err := c.Ends(topic); return err }); err != nil {
		return fmt.Errorf("topic %s has no leaders: %w", topic, err)
	}
	return nil
}

// DeletePrefix deletes every topic whose name begins with prefix.
func (c *Client) DeletePrefix(prefix string) error {
	topics, err := c.admin.ListTopics()
	if err != nil {
		return err
	}
	for topic := range topics {
		if !strings.HasPrefix(topic, prefix) {
			continue
		}
		if gone := c.admin.DeleteTopic(topic); !errors.Is(gone, sarama.ErrUnknownTopicOrPartition) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// Ends are the end offsets of a topic's partitions.
func (c *Client) Ends(topic string) ([]int64, error) {
	b, err := c.connect()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	n, err := partitions(b, topic)
	if err != nil {
		return nil, err
	}
	request := &sarama.OffsetRequest{Version: 1}
	for p := range n {
		request.AddBlock(topic, p, sarama.OffsetNewest, 1)
	}
	response, err := b.GetAvailableOffsets(request)
	if err != nil {
		return nil, err
	}
	ends := make([]int64, n)
	for p := range ends {
		block := response.GetBlock(topic, int32(p))
		if block == nil {
			return nil, sarama.ErrUnknownTopicOrPartition
		}
		if block.Err != sarama.ErrNoError {
			return nil, block.Err
		}
		ends[p] = block.Offset
	}
	return ends, nil
}

// partitions is the number of a topic's partitions.
func partitions(b *sarama.Broker, topic string) (int32, error) {
	response, err := b.GetMetadata(sarama.NewMetadataRequest(config().Version, []string{topic}))
	if err != nil {
		return 0, err
	}
	for _, t := range response.Topics {
		if t.Name == topic && t.Err == sarama.ErrNoError && len(t.Partitions) > 0 {
			return int32(len(t.Partitions)), nil
		}
	}
	return 0, sarama.ErrUnknownTopicOrPartition
}

// Committed is how many records of a topic a group has committed: the sum of its offsets, 0 for partitions without one, and
// for a group that there is not.
func (c *Client) Committed(group, topic string, partitions int32) (total int64, err error) {
	var all []int32
	for p := range partitions {
		all = append(all, p)
	}
	response, err := c.admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: all})
	if errors.Is(err, sarama.ErrGroupIDNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, block := range response.Blocks[topic] {
		total += max(0, block.Offset)
	}
	return total, nil
}
