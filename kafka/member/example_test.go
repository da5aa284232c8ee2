package member_test

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/member"
)

func ExampleMachine() {
	m := member.New(member.Config{Session: 10 * time.Second, Error: func(op broker.Op, code int16) *broker.Error { return &broker.Error{Op: op, Code: code} }})
	now := time.Unix(0, 0)
	fmt.Printf("%T\n", m.Start(now)[0])
	fmt.Printf("%T\n", m.Joined(now, member.JoinAnswer{Seq: 1, Generation: 1, MemberID: "me", Leader: true})[0])
	fmt.Println(m.Phase(), m.Generation())
	// Output:
	// member.Join
	// member.Sync
	// syncing 1
}
