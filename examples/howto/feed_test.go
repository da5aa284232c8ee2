package howto

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/cli"
	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// app has the command line of the application: main is cli.Main(app).
var app = cli.App{Name: "shop", Topology: func(string) (*topology.Topology, error) { return build() }}

// sell writes an order as any client of Kafka can.
func sell(brokers []string, customer string, o Order) error {
	conf := sarama.NewConfig()
	conf.Producer.Return.Successes = true                    // a SyncProducer needs them
	conf.Producer.Partitioner = sarama.NewMurmur2Partitioner // sarama's default puts keys into other partitions
	p, err := sarama.NewSyncProducer(brokers, conf)
	if err != nil {
		return err
	}
	defer p.Close()
	value, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, _, err = p.SendMessage(&sarama.ProducerMessage{
		Topic: "orders", Key: sarama.StringEncoder(customer), Value: sarama.ByteEncoder(value), Timestamp: time.Now(),
	})
	return err
}

// What sell writes is where the topology, and a question for the customer, look for it.
func TestSell(t *testing.T) {
	cluster := millracetest.NewCluster(t, "shop")
	cluster.CreateTopic("orders", 4)
	customers := []string{"ann", "bob", "cyd", "eve"}
	for _, customer := range customers {
		if err := sell(cluster.Brokers(), customer, Order{"book", 1200}); err != nil {
			t.Fatal(err)
		}
	}
	var sold []string
	for _, r := range millracetest.Consume(cluster, orders) {
		if sold = append(sold, r.Key); r.Partition != record.Partition([]byte(r.Key), 4) {
			t.Errorf("%s is in partition %d", r.Key, r.Partition)
		}
	}
	if slices.Sort(sold); !slices.Equal(sold, customers) {
		t.Error(sold)
	}
}

func TestCommandLine(t *testing.T) {
	var out, errs strings.Builder
	p := cli.Process{Args: []string{"check", "--brokers", "k1:9092"}, Environ: func() []string { return nil }, Out: &out, Err: &errs}
	if code := cli.Run(t.Context(), app, p); code != 0 || !strings.Contains(out.String(), "k1:9092") {
		t.Error(code, out.String(), errs.String())
	}
}
