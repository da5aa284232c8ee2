package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/record"
)

// Client is connections to a cluster and what is known of its leaders. It is for one goroutine.
type Client struct {
	seeds   []string
	conns   map[string]*sarama.Broker
	brokers map[int32]string
	leaders map[record.TopicPartition]leader
}

type leader struct {
	address string
	epoch   int32
}

// New returns a client that has connected to nothing yet. The caller closes it.
func New(seeds []string) *Client {
	return &Client{seeds: seeds, conns: map[string]*sarama.Broker{}, brokers: map[int32]string{}, leaders: map[record.TopicPartition]leader{}}
}

// Close ends the connections. No request may be under way.
func (c *Client) Close() {
	for _, b := range c.conns {
		b.Close() // whether it was still open is of no use to anyone
	}
	clear(c.conns)
}

func settings() *sarama.Config {
	s := sarama.NewConfig()
	s.Version = sarama.MaxVersion
	s.ClientID = "millrace-chaos"
	s.Net.DialTimeout = 3 * time.Second
	s.Net.ReadTimeout = 12 * time.Second
	s.Net.WriteTimeout = 5 * time.Second
	s.Metadata.AllowAutoTopicCreation = false
	return s
}

// Refused is an answer that the same request would get again.
type Refused struct {
	Request string
	Code    sarama.KError
}

// Error names the request and the broker's answer.
func (e *Refused) Error() string { return e.Request + " is refused: " + e.Code.Error() }

// Unwrap gives the broker's answer.
func (e *Refused) Unwrap() error { return e.Code }

// call makes a request on the connection to one broker; any error closes the connection, as what is still in it would
// be taken for the answer to the next request.
func call[T any](c *Client, address string, request func(*sarama.Broker) (T, error)) (answer T, err error) {
	b := c.conns[address]
	if b == nil {
		b = sarama.NewBroker(address)
		if err := b.Open(settings()); err != nil {
			return answer, err
		}
		if ok, err := b.Connected(); !ok {
			return answer, fmt.Errorf("no connection to %s: %w", address, err)
		}
		c.conns[address] = b
	}
	if answer, err = request(b); err != nil {
		delete(c.conns, address)
		b.Close() // the error that counts is the request's
	}
	return answer, err
}

const (
	firstPause = 20 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// retry calls f until it succeeds, is Refused, or ctx ends; before each further try the leaders are looked up anew.
func (c *Client) retry(ctx context.Context, what string, f func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := f()
		if err == nil {
			return nil
		}
		if _, refused := errors.AsType[*Refused](err); refused {
			return err
		}
		clear(c.leaders)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; the last answer was: %w", what, context.Cause(ctx), err)
		}
	}
}

// anyBroker asks the brokers that are known, one after the other, until one answers.
func anyBroker[T any](c *Client, request func(*sarama.Broker) (T, error)) (answer T, err error) {
	for _, address := range c.seeds {
		if answer, err = call(c, address, request); err == nil {
			return answer, nil
		}
	}
	return answer, err
}

// metadata asks for topics, all of them if none is named, and learns who leads.
func (c *Client) metadata(topics ...string) (*sarama.MetadataResponse, error) {
	answer, err := anyBroker(c, func(b *sarama.Broker) (*sarama.MetadataResponse, error) {
		return b.GetMetadata(&sarama.MetadataRequest{Version: 7, Topics: topics})
	})
	if err != nil {
		return nil, err
	}
	for _, b := range answer.Brokers {
		c.brokers[b.ID()] = b.Addr()
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if address, ok := c.brokers[p.Leader]; ok && p.Err == sarama.ErrNoError {
				c.leaders[record.TopicPartition{Topic: t.Name, Partition: p.ID}] = leader{address, p.LeaderEpoch}
			}
		}
	}
	return answer, nil
}

func (c *Client) leader(tp record.TopicPartition) (leader, error) {
	if l, ok := c.leaders[tp]; ok {
		return l, nil
	}
	if _, err := c.metadata(tp.Topic); err != nil {
		return leader{}, err
	}
	if l, ok := c.leaders[tp]; ok {
		return l, nil
	}
	return leader{}, fmt.Errorf("%s: %w", tp, sarama.ErrLeaderNotAvailable)
}

// InSync is nil if every broker knows the topics and that every partition of every topic has so many replicas in sync;
// otherwise it says who does not.
func (c *Client) InSync(replicas int, topics ...string) error {
	for _, address := range c.seeds {
		answer, err := call(c, address, func(b *sarama.Broker) (*sarama.MetadataResponse, error) {
			return b.GetMetadata(&sarama.MetadataRequest{Version: 7})
		})
		if err != nil {
			return err
		}
		if err := inSync(answer, replicas, topics); err != nil {
			return fmt.Errorf("%s says: %w", address, err)
		}
	}
	return nil
}

func inSync(answer *sarama.MetadataResponse, replicas int, topics []string) error {
	known := map[string]bool{}
	for _, t := range answer.Topics {
		known[t.Name] = t.Err == sarama.ErrNoError && len(t.Partitions) > 0
		for _, p := range t.Partitions {
			if p.Err != sarama.ErrNoError || len(p.Isr) < replicas {
				return fmt.Errorf("%s-%d has %d of %d replicas in sync (%w)", t.Name, p.ID, len(p.Isr), replicas, p.Err)
			}
		}
	}
	for _, t := range topics {
		if !known[t] {
			return fmt.Errorf("there is no topic %s yet", t)
		}
	}
	return nil
}
