package httpapi

import (
	"context"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// silent is a node whose stores are empty.
type silent struct{}

func (silent) State() lifecycle.Node                             { return lifecycle.NodeRunning }
func (silent) Threads() []lifecycle.ThreadStatus                 { return nil }
func (silent) Partitions(context.Context, string) (int32, error) { return 4, nil }
func (silent) Ask(_ context.Context, q query.Question) (*querypb.Reply, error) {
	switch q.(type) {
	case *querypb.Get:
		return &querypb.Reply{Position: []*querypb.Position{{Topic: "lines", Partition: 2, Next: 123_456}},
			Answer: &querypb.Reply_Value{Value: &querypb.Value{Present: true, Value: []byte("42"), Timestamp: 1_700_000_000_000}}}, nil
	case *querypb.Range:
		return &querypb.Reply{Answer: &querypb.Reply_Page{Page: &querypb.Page{}}}, nil
	}
	return &querypb.Reply{Answer: &querypb.Reply_Locations{Locations: &querypb.Locations{Partitions: 4, Locations: []*querypb.Location{{State: "none"}}}}}, nil
}
