package raw

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/bench/work"
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

// Create makes a topic with the benchmark's number of partitions and waits until each has a leader.
func (c *Client) Create(topic string) error {
	detail := &sarama.TopicDetail{NumPartitions: work.Partitions, ReplicationFactor: 1}
	if err := c.admin.CreateTopic(topic, detail, false); err != nil && !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	var err error
	for range 200 {
		if _, err = c.Ends(topic); err == nil {
			return nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	return fmt.Errorf("topic %s has no leaders: %w", topic, err)
}

// DeletePrefix deletes every topic whose name begins with prefix.
func (c *Client) DeletePrefix(prefix string) error {
	topics, err := c.admin.ListTopics()
	if err != nil {
		return err
	}
	for topic := range topics {
		if strings.HasPrefix(topic, prefix) {
			err = errors.Join(err, c.admin.DeleteTopic(topic))
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
	request := &sarama.OffsetRequest{Version: 1}
	for p := range int32(work.Partitions) {
		request.AddBlock(topic, p, sarama.OffsetNewest, 1)
	}
	response, err := b.GetAvailableOffsets(request)
	if err != nil {
		return nil, err
	}
	ends := make([]int64, work.Partitions)
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
