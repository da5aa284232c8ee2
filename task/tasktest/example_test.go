package tasktest_test

import (
	"fmt"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
)

func ExampleState() {
	s := tasktest.NewState(1)
	s.Apply(&task.Unit{Writes: []task.Write{{Key: []byte("cat"), Value: []byte("1")}, {Key: []byte("the"), Value: []byte("2")}}})
	for row, err := range s.Scan(0, []byte("d"), nil, false) {
		fmt.Printf("%s=%s %v\n", row.Key, row.Value, err)
	}
	// Output: the=2 <nil>
}

func ExampleProducer() {
	p := tasktest.NewProducer(map[string]int32{"out": 4})
	tp := record.TopicPartition{Topic: "out", Partition: 3}
	_ = p.Append(tp, &record.Raw{Key: []byte("the"), Value: []byte("1")})
	_ = p.Append(tp, &record.Raw{Key: []byte("the")}) // a tombstone
	n, _ := p.Partitions("out")
	fmt.Println(n, len(p.Log[tp]), len(p.Compacted(tp)))
	// Output: 4 2 0
}
