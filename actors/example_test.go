package actors_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/actors"
)

func ExampleAsk() {
	system := actors.NewSystem(slog.New(slog.DiscardHandler))
	pid := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if name, ok := ctx.Message().(string); ok {
			ctx.Respond("hello " + name)
		}
	}))
	answer, err := actors.Ask(context.Background(), system, pid, "wheel")
	fmt.Println(answer, err)
	// Output: hello wheel <nil>
}
