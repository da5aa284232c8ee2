package kafka_test

import (
	"fmt"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
)

func ExampleClassify() {
	fmt.Println(kafka.Classify(broker.OpProduce, 6), kafka.Classify(broker.OpOffsetCommit, 25), kafka.Classify(broker.OpProduce, 10))
	// Output: Retry Migrated Record
}
