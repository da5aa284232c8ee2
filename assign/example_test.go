package assign_test

import (
	"fmt"

	"github.com/millrace-io/millrace/assign"
)

func ExampleMake() {
	plan, err := assign.Make(assign.Input{
		Members:    []assign.Member{{ID: "a", ProcessID: "1"}, {ID: "b", ProcessID: "2"}},
		Sources:    map[int32][]string{0: {"lines"}},
		Partitions: map[string]int32{"lines": 4},
	})
	fmt.Println(err, len(plan.Assignments["a"].Tasks), len(plan.Assignments["b"].Tasks))
	// Output: <nil> 2 2
}
