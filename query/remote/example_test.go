package remote_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/remote"
)

func ExampleDial() {
	_, err := remote.Dial(context.Background(), []string{"127.0.0.1:1"})
	fmt.Println(errors.Is(err, query.ErrStreamThreadNotRunning))
	// Output: true
}

func ExampleCheck() {
	fmt.Println(remote.Check("192.0.2.1:7000"))
	// Output: nothing says who may ask on 192.0.2.1:7000, which other machines can reach: give WithTLS a configuration with ClientCAs (mutual TLS) or WithToken a secret, or listen on 127.0.0.1
}
