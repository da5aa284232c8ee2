package matrix_test

import (
	"fmt"

	"github.com/millrace-io/millrace/query/matrix"
)

func ExampleRow_At() {
	for _, r := range matrix.Rows {
		if p := r.At(2); p.NA != "" {
			fmt.Println(r.Number, p.NA)
		}
	}
	// Output:
	// 5 there are no standby tasks yet, so no transition leads here
	// 22 nothing pauses a node yet, so no transition leads here
}
