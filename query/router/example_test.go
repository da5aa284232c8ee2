package router_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/router"
)

func ExampleRouter_Ask() {
	r := router.New(actors.NewSystem(slog.New(slog.DiscardHandler)), "app", router.Options{})
	_, err := r.Ask(context.Background(), &querypb.Get{About: &querypb.About{Store: "misspelt"}, Key: []byte("k")})
	fmt.Println(err != nil)
	// Output: true
}
