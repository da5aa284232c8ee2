package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
)

// session is how long the group waits for a node that was killed: the least that brokers accept.
const session = 6 * time.Second

// nodeMain is a child process: a node and its door. It says both addresses on standard output, and ends when it is killed.
func nodeMain(args []string) int {
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	brokers := flags.String("brokers", "", "host:port,…")
	state := flags.String("state", "", "state directory")
	if flags.Parse(args) != nil {
		return 2
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if err := runNode(strings.Split(*brokers, ","), *state, log); err != nil {
		log.Error("the node ended", "err", err)
		return 1
	}
	return 0
}

func runNode(brokers []string, state string, log *slog.Logger) error {
	top, err := build()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	node, err := millrace.New(application, top, millrace.WithBrokers(brokers...), millrace.WithStateDir(state), millrace.WithThreads(2),
		millrace.WithSessionTimeout(session), millrace.WithRemote("127.0.0.1:0"), millrace.WithLogger(log))
	if err != nil {
		return err
	}
	go http.Serve(l, door(node)) // it ends with the process
	fmt.Println(node.RemoteAddress(), l.Addr())
	return node.Run(context.Background())
}

// door is what the storm itself tells and asks a node.
func door(node *millrace.Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(status{node.State().String(), len(node.Owned())}) // the reader has gone; nothing is to be done
	})
	mux.HandleFunc("POST /rebalance", func(w http.ResponseWriter, r *http.Request) {
		if err := rebalance(r.Context(), node); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// status is what a node says about itself.
type status struct {
	State string
	Tasks int
}

// rebalance takes a thread away and adds one, so that partitions move twice.
func rebalance(ctx context.Context, node *millrace.Node) error {
	threads := node.Threads()
	if err := node.RemoveThread(ctx, threads[len(threads)-1].Name); err != nil {
		return err
	}
	_, err := node.AddThread()
	return err
}
