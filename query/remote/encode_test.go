package remote

import (
	"context"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

func pidOf(id string) *actor.PID { return &actor.PID{Id: id} }

// A deadline becomes a time-out, the rest of the About stays, and the question that was given is not changed.
func TestDeadlinesTravelAsTimeouts(t *testing.T) {
	p := int32(3)
	for name, c := range map[string]struct {
		about    *querypb.About
		ctx      time.Duration
		low, top int64
	}{
		"the context's":        {nil, 2 * time.Second, 1, 2_000},
		"the question's":       {&querypb.About{DeadlineMs: time.Now().Add(time.Second).UnixMilli()}, time.Hour, 1, 1_000},
		"the question's in ms": {&querypb.About{TimeoutMs: 700}, time.Hour, 700, 700},
		"neither":              {&querypb.About{}, 0, query.MaxWait.Milliseconds(), query.MaxWait.Milliseconds()},
		"passed":               {&querypb.About{DeadlineMs: 1}, time.Hour, 1, 1},
		"with everything else": {&querypb.About{Store: "counts", Partition: &p, Epoch: 7, Derived: true, TimeoutMs: 5}, time.Hour, 5, 5},
	} {
		ctx := t.Context()
		if c.ctx > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.ctx)
			defer cancel()
		}
		q := &querypb.Get{About: c.about, Key: []byte("k")}
		before := proto.Clone(q)
		encoded, err := encode(ctx, q)
		got := &querypb.Get{}
		if err != nil || proto.Unmarshal(encoded, got) != nil || !proto.Equal(before, q) {
			t.Fatal(name, err)
		}
		about := got.About
		if about.TimeoutMs < c.low || about.TimeoutMs > c.top || about.DeadlineMs != 0 {
			t.Errorf("%s: %v", name, about)
		}
		if c.about.GetStore() != about.Store || c.about.GetEpoch() != about.Epoch || c.about.GetDerived() != about.Derived || c.about.GetPartition() != about.GetPartition() {
			t.Errorf("%s: %v became %v", name, c.about, about)
		}
	}
}

// The numbers that encode writes are those of query.proto.
func TestEncodedFieldsAreTheProtos(t *testing.T) {
	about := (&querypb.About{}).ProtoReflect().Descriptor().Fields()
	if about.ByName("deadline_ms").Number() != deadlineMsField || about.ByName("timeout_ms").Number() != timeoutMsField {
		t.Error("the numbers of the times have changed")
	}
	for name, kind := range questions {
		if f := kind.Descriptor().Fields().ByName("about"); f == nil || f.Number() != aboutField {
			t.Errorf("%s has no about with number %d", name, aboutField)
		}
	}
}
