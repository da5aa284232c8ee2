package broker_test

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/broker"
)

func ExampleError() {
	err := fmt.Errorf("commit: %w", &broker.Error{Op: broker.OpOffsetCommit, Code: 25, Class: broker.Migrated})
	var e *broker.Error
	fmt.Println(errors.As(err, &e), e.Class)
	// Output: true Migrated
}

func ExampleInbox() {
	in := broker.NewInbox()
	in.Put(broker.Rejoining{Reason: "a member joined"})
	<-in.Wake()
	for _, e := range in.Poll(nil) {
		fmt.Printf("%T\n", e)
	}
	// Output: broker.Rejoining
}
