package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-io/millrace"
)

// nodeSettings are the flags of the node sub-command, which only this program calls.
type nodeSettings struct {
	brokers   string
	state     string
	report    string
	guarantee millrace.Guarantee
	threads   int
	// remote is where it answers questions of other processes; empty if it does not.
	remote string
}

// args is the command line that nodeMain reads.
func (s nodeSettings) args() []string {
	return []string{"node", "-brokers", s.brokers, "-state", s.state, "-report", s.report, "-guarantee", s.guarantee.String(),
		"-threads", fmt.Sprint(s.threads), "-remote", s.remote}
}

// nodeMain is a child process: a node with both jobs, a door for the parent's questions, and a file of counters. SIGTERM
// ends it as a restart does, without leaving the group; SIGINT as scaling in does.
func nodeMain(args []string) int {
	s, err := parseNode(args)
	if err != nil {
		return 2
	}
	if err := runNode(s); err != nil {
		slog.New(handler()).Error("the node ended", "err", err)
		return 1
	}
	return 0
}

func parseNode(args []string) (s nodeSettings, err error) {
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	flags.StringVar(&s.brokers, "brokers", "", "host:port,…")
	flags.StringVar(&s.state, "state", "", "state directory")
	flags.StringVar(&s.report, "report", "", "path that the names of reports begin with")
	flags.IntVar(&s.threads, "threads", 2, "stream threads")
	flags.StringVar(&s.remote, "remote", "", "host:port for questions")
	guaranteeFlag(flags, &s.guarantee)
	return s, flags.Parse(args)
}

func handler() slog.Handler {
	return slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
}

func runNode(s nodeSettings) error {
	top, err := build()
	if err != nil {
		return err
	}
	options := []millrace.Option{millrace.WithBrokers(strings.Split(s.brokers, ",")...), millrace.WithStateDir(s.state),
		millrace.WithThreads(s.threads), millrace.WithSessionTimeout(session), millrace.WithTransactionTimeout(transaction), millrace.WithShutdownTimeout(endLimit),
		millrace.WithGuarantee(s.guarantee), millrace.WithLogger(slog.New(handler()))}
	if s.remote != "" {
		options = append(options, millrace.WithRemote(s.remote))
	}
	node, err := millrace.New(application, top, options...)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: door(node)}
	go server.Serve(l) // it ends with the process
	if err := writeWhole(s.report+addressSuffix, []byte(l.Addr().String())); err != nil {
		return err
	}
	reported := make(chan error, 1)
	ended := make(chan struct{})
	go func() { reported <- reportCounts(node, s.report+countsSuffix, ended) }()
	go stopOnSignal(node)
	err = node.Run(context.Background())
	close(ended)
	return errors.Join(err, <-reported)
}

func stopOnSignal(node *millrace.Node) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	s := <-signals
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	node.Shutdown(ctx, millrace.Leave(s == os.Interrupt)) // Run returns the same error
}

const (
	addressSuffix = ".address"
	countsSuffix  = ".counts"
	reportEvery   = 250 * time.Millisecond
)

// writeWhole makes a file appear with all of its content.
func writeWhole(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// reportCounts appends the counters to a file when they have changed, until ended is closed, and once more then.
func reportCounts(node *millrace.Node, path string, ended <-chan struct{}) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	var last counters
	for more := true; more; {
		select {
		case <-ticker.C:
		case <-ended:
			more = false
		}
		now := countersOf(node)
		if now == last {
			continue
		}
		line, err := json.Marshal(now)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
		last = now
	}
	return nil
}

// status is what a node says about itself.
type status struct {
	State   string
	Threads []threadStatus
	Owned   []string
}

type threadStatus struct {
	Name, State, Cause string
	Epoch              uint64
}

func statusOf(node *millrace.Node) status {
	s := status{State: node.State().String()}
	for _, t := range node.Threads() {
		ts := threadStatus{Name: t.Name, State: t.State.String(), Epoch: t.Epoch}
		if t.Cause != nil {
			ts.Cause = t.Cause.Error()
		}
		s.Threads = append(s.Threads, ts)
	}
	for _, id := range node.Owned() {
		s.Owned = append(s.Owned, id.String())
	}
	return s
}

// door answers the parent.
func door(node *millrace.Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, statusOf(node), nil) })
	mux.HandleFunc("GET /stores", func(w http.ResponseWriter, r *http.Request) {
		d, err := dump(r.Context(), node)
		answer(w, d, err)
	})
	mux.HandleFunc("POST /drain", func(w http.ResponseWriter, r *http.Request) { answer(w, "drained", node.Drain(r.Context())) })
	mux.HandleFunc("GET /goroutines", func(w http.ResponseWriter, _ *http.Request) {
		pprof.Lookup("goroutine").WriteTo(w, 2) // the reader has gone; nothing is to be done
	})
	return mux
}

func answer(w http.ResponseWriter, body any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	json.NewEncoder(w).Encode(body) // the reader has gone; nothing is to be done
}
