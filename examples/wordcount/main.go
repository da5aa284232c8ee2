// Command wordcount is a web service with a Millrace node inside: POST text to /lines, GET /counts/{word}.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/query"
)

func main() {
	brokers := flag.String("brokers", "", "Kafka brokers, host:port,...; an embedded one if empty")
	address := flag.String("listen", "127.0.0.1:8090", "host:port to serve on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", *address)
	if err == nil {
		err = run(ctx, *brokers, os.TempDir()+"/millrace-example", l)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves on l until ctx ends.
func run(ctx context.Context, brokers, stateDir string, l net.Listener) error {
	addrs := strings.Split(brokers, ",")
	if brokers == "" {
		broker, err := embedded.Start()
		if err != nil {
			return err
		}
		defer broker.Close()
		addrs = broker.Addrs()
	}
	topology, err := wordCount()
	if err != nil {
		return err
	}
	in, err := openInput(ctx, addrs)
	if err != nil {
		return err
	}
	defer in.close()
	node, err := millrace.New("wordcount-example", topology, millrace.WithBrokers(addrs...), millrace.WithStateDir(stateDir))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", node.Handler())
	mux.Handle("POST /lines", in)
	mux.HandleFunc("GET /counts/{word}", func(w http.ResponseWriter, r *http.Request) {
		n, _, err := query.Get(r.Context(), node, counts, r.PathValue("word"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // errors.Is says whether to ask again, and where
			return
		}
		fmt.Fprintln(w, n)
	})
	server, group := &http.Server{Handler: mux}, errgroup.Group{}
	group.Go(func() error { return errors.Join(node.Run(ctx), server.Close()) })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return group.Wait()
}
