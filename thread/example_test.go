package thread_test

import (
	"fmt"

	"github.com/millrace-io/millrace/thread"
)

func ExampleNewSlot() {
	s := thread.NewSlot("thread-1")
	s.Inbox.Put(thread.StoresServing{})
	fmt.Println(s.Name, len(s.Inbox.Poll(nil)))
	// Output: thread-1 1
}
