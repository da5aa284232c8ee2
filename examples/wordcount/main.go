// Command wordcount is a web service with a node inside, which counts the words of the topic that "millrace dev" fills.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	lines  = topology.NewTopic("word-count-lines", codec.Bytes, codec.String)
	words  = topology.NewRepartition("words", codec.String, codec.String)
	counts = topology.NewKeyValueStore("counts", codec.String, codec.Int64)
)

func wordCount() (*topology.Topology, error) {
	b := topology.NewBuilder()
	split := topology.FlatMap(topology.From(b, lines), func(line record.Record[[]byte, string], emit func(record.Record[string, string]) error) error {
		for _, word := range strings.Fields(strings.ToLower(line.Value)) {
			if err := emit(record.New(word, word, line.Timestamp)); err != nil {
				return err
			}
		}
		return nil
	})
	topology.Count(topology.Through(split, words), counts)
	return b.Build()
}

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "Kafka brokers, host:port,...")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:8090")
	if err == nil {
		fmt.Printf("Ask for a count: curl http://%s/counts/the\n", l.Addr())
		err = run(ctx, l, millrace.WithBrokers(strings.Split(*brokers, ",")...))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves on l until ctx ends or the node does.
func run(ctx context.Context, l net.Listener, opts ...millrace.Option) error {
	t, err := wordCount()
	if err != nil {
		return err
	}
	node, err := millrace.New("wordcount-example", t, opts...)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", node.Handler())
	mux.HandleFunc("GET /counts/{word}", func(w http.ResponseWriter, r *http.Request) {
		if n, _, err := query.Get(r.Context(), node, counts, r.PathValue("word")); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // errors.Is says whether to ask again, and where
		} else {
			fmt.Fprintln(w, n)
		}
	})
	defer l.Close()
	go http.Serve(l, mux)
	return node.Run(ctx)
}
