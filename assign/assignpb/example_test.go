package assignpb_test

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/assign/assignpb"
)

func Example() {
	b, err := proto.Marshal(&assignpb.Subscription{Version: 1, Endpoint: "127.0.0.1:8080"})
	var s assignpb.Subscription
	fmt.Println(err, proto.Unmarshal(b, &s), s.Endpoint)
	// Output: <nil> <nil> 127.0.0.1:8080
}
