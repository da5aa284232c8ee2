package millrace_test

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace"
)

func ExampleNew() {
	_, err := millrace.New("not a name", nil)
	var o *millrace.OptionError
	fmt.Println(errors.As(err, &o), o.Option)
	// Output: true application id
}
