package transaction_test

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

func ExampleMachine() {
	m := transaction.New(settings(true))
	now := time.Unix(0, 0)
	show := func(effects []transaction.Effect) {
		for _, e := range effects {
			fmt.Printf("%T\n", e)
		}
	}
	show(m.Tick(now))
	m.Answered(now, transaction.Answer{PID: 7})
	out := record.TopicPartition{Topic: "out"}
	show(m.Put(now, &transaction.Batch{To: out, Records: 3}))
	m.Answered(now, transaction.Answer{Codes: map[record.TopicPartition]int16{out: 0}})
	for b := range m.Ready(now) {
		m.Sent(b)
		show(m.Flush(now, 1, 0))
		show(m.Produced(now, b, transaction.Result{Base: 40}))
	}
	show(m.Commit(now, 2, broker.Offsets{}, broker.Membership{}))
	show(m.Answered(now, transaction.Answer{}))
	fmt.Println(m.State())
	// Output:
	// transaction.InitProducerID
	// transaction.AddPartitions
	// transaction.Release
	// transaction.Deliver
	// transaction.EndTxn
	// transaction.Deliver
	// READY
}
