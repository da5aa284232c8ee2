package query_test

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
)

func ExampleDecide() {
	kind, serve := query.Decide(query.Situation{Node: lifecycle.NodeCreated, Declared: true, Partitions: 4})
	fmt.Println(kind, serve)
	// Output: StreamThreadNotStarted false
}

func ExampleFailure() {
	var err error = query.New(query.StreamThreadRebalancing, "counts", 2)
	fmt.Println(errors.Is(err, query.ErrRetryable), errors.Is(err, query.ErrInvalidStateStore))
	// Output: true true
}
