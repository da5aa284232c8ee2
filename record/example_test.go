package record_test

import (
	"fmt"

	"github.com/millrace-io/millrace/record"
)

func ExamplePartition() {
	fmt.Println(record.Partition([]byte("the"), 4))
	// Output: 3
}

func ExampleWithValue() {
	r := record.WithValue(record.New("word", "text", 7), int64(1))
	fmt.Println(r.Key, r.Value, r.Timestamp)
	// Output: word 1 7
}
