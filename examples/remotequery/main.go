// Command remotequery is two programs. The first is a node that keeps the stock of a shop, and lets other processes ask:
//
//	go run ./examples/remotequery dev --remote 127.0.0.1:7000
//
// The second, in ask.go, knows nothing of Millrace but the messages of query.proto. It is an actor program that finds the
// store actor of a partition by its PID, asks it, and prints the answer:
//
//	$ go run ./examples/remotequery ask 127.0.0.1:7000 lamp
//	lamp: 5, says remotequery/query/stock/0 at 127.0.0.1:7000
//	$ go run ./examples/remotequery ask 127.0.0.1:7000 sofa
//	sofa: no such key, says remotequery/query/stock/2 at 127.0.0.1:7000
//
// An address that other machines can reach needs certificates or a token: docs/remote.md. A Go program that is no actor
// system has it easier with remote.Dial, which follows owners, reconnects, and needs no address of its own.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/cli"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	moves = topology.NewRepartition("moves", codec.String, codec.Int64)
	stock = topology.NewKeyValueStore("stock", codec.String, codec.Int64)
)

func movesTopic(app string) string { return app + "-moves" }

type move = record.Record[string, int64]

// inStock adds up what comes and goes: lines such as "lamp +3".
func inStock(app string) (*topology.Topology, error) {
	b := topology.NewBuilder()
	b.Always(topology.Processing, topology.Skip)
	lines := topology.From(b, topology.NewTopic(movesTopic(app), codec.Bytes, codec.String))
	parsed := topology.Map(lines, func(line record.Record[[]byte, string]) (move, error) {
		what, many, _ := strings.Cut(line.Value, " ")
		n, err := strconv.ParseInt(many, 10, 64)
		return record.New(what, n, line.Timestamp), err
	})
	topology.Reduce(topology.Through(parsed, moves), stock, func(sum, n int64) (int64, error) { return sum + n, nil })
	return b.Build()
}

var app = cli.App{Name: "remotequery", Topology: inStock,
	Demo: &cli.Demo{Lines: movesTopic, Counts: stock, Text: "lamp +10\nchair +4\nlamp -3\nnot a move\nlamp -2\n", Key: "lamp"}}

func main() {
	if len(os.Args) != 4 || os.Args[1] != "ask" {
		cli.Main(app)
	}
	answer, err := ask(os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(answer)
}
