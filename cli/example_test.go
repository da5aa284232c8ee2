package cli_test

import (
	"context"
	"fmt"
	"os"

	"github.com/millrace-io/millrace/cli"
	"github.com/millrace-io/millrace/topology"
)

func ExampleRun() {
	app := cli.App{Name: "mine", Topology: func(string) (*topology.Topology, error) { return topology.NewBuilder().Build() }}
	code := cli.Run(context.Background(), app, cli.Process{
		Args: []string{"run"}, Environ: func() []string { return nil }, In: os.Stdin, Out: os.Stdout, Err: os.Stdout,
	})
	fmt.Println(code)
	// Output:
	// millrace: run needs a Kafka cluster; name it with --brokers host:port, or try dev, which brings its own
	// 2
}
