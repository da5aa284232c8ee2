package lifecycle_test

import (
	"fmt"

	"github.com/millrace-io/millrace/lifecycle"
)

func ExampleMachine() {
	m := lifecycle.NewMachine(&lifecycle.ThreadTable, "thread-1")
	m.Become(lifecycle.ThreadRebalancing)
	m.Become(lifecycle.ThreadRunning)
	fmt.Println(m.State(), m.Can(lifecycle.ThreadCreated))
	// Output: RUNNING false
}
