package remote

import (
	"context"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
)

// Numbers of the fields of query.proto that encode sets.
const (
	aboutField      protowire.Number = 1
	deadlineMsField protowire.Number = 7
	timeoutMsField  protowire.Number = 11
)

// encode writes a question for another process. The deadline becomes a time-out, because the other clock may be wrong. The
// question is not changed: of a field that comes twice Protobuf takes the later one, and it merges two messages of one field,
// so a second About with the two times alone is enough.
func encode(ctx context.Context, q query.Question) ([]byte, error) {
	encoded, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 0, proto.Size(q)+24), q)
	if err != nil {
		return nil, err
	}
	times := make([]byte, 0, 16)
	times = protowire.AppendVarint(protowire.AppendTag(times, deadlineMsField, protowire.VarintType), 0)
	times = protowire.AppendVarint(protowire.AppendTag(times, timeoutMsField, protowire.VarintType), uint64(timeout(ctx, q)))
	return protowire.AppendBytes(protowire.AppendTag(encoded, aboutField, protowire.BytesType), times), nil
}

// timeout is how many milliseconds the asker still waits: until the context's deadline or the question's own.
func timeout(ctx context.Context, q query.Question) int64 {
	now, left := time.Now(), time.Duration(math.MaxInt64)
	if d, ok := ctx.Deadline(); ok {
		left = d.Sub(now)
	}
	if d, ok := query.Deadline(q, now); ok {
		left = min(left, d.Sub(now))
	}
	if left > query.MaxWait {
		left = query.MaxWait
	}
	return max(1, int64(left/time.Millisecond))
}
