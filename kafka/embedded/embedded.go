package embedded

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Cluster is a running embedded cluster.
type Cluster struct{ fake *kfake.Cluster }

// Start runs three brokers on free ports of 127.0.0.1. Sessions may be as short as 100 ms, where a real broker's default is
// 6 s at least, so that tests of death need not last. Further options of the fake apply after that.
// Its error is that of an option, or of a port that cannot be had.
func Start(opts ...kfake.Opt) (*Cluster, error) {
	own := []kfake.Opt{kfake.NumBrokers(3), kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "100"})}
	c, err := kfake.NewCluster(append(own, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("embedded: start: %w", err)
	}
	return &Cluster{c}, nil
}

// Addrs are the brokers, host:port each.
func (c *Cluster) Addrs() []string { return c.fake.ListenAddrs() }

// Kfake is the fake itself, with its fault hooks.
func (c *Cluster) Kfake() *kfake.Cluster { return c.fake }

// Close ends the brokers; their data is gone.
func (c *Cluster) Close() { c.fake.Close() }
