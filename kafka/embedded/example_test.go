package embedded_test

import (
	"fmt"

	"github.com/millrace-io/millrace/kafka/embedded"
)

func ExampleStart() {
	c, err := embedded.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(len(c.Addrs()))
	// Output: 3
}
