package ask

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// Path is where Handler belongs.
const Path = "/question"

// most is the longest question that is read.
const most = 4 << 20

// Handler answers with a querypb.Reply. A POST is a question, as an Any; a GET asks for the number of partitions of the
// store in its query, which comes as a Locations.
func Handler(c query.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply, err := answer(c, r)
		if f := (*query.Failure)(nil); errors.As(err, &f) {
			reply = query.ToReply(f)
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body, err := proto.Marshal(reply)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Write(body) // the asker has gone; nothing is to be done
	})
}

func answer(c query.Client, r *http.Request) (*querypb.Reply, error) {
	if r.Method == http.MethodGet {
		n, err := c.Partitions(r.Context(), r.FormValue("store"))
		return &querypb.Reply{Answer: &querypb.Reply_Locations{Locations: &querypb.Locations{Partitions: n}}}, err
	}
	q, err := read(r.Body)
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	if ms := q.GetAbout().GetTimeoutMs(); ms > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
	}
	return c.Ask(ctx, q)
}

func read(body io.Reader) (query.Question, error) {
	text, err := io.ReadAll(io.LimitReader(body, most))
	if err != nil {
		return nil, err
	}
	var any anypb.Any
	if err := proto.Unmarshal(text, &any); err != nil {
		return nil, err
	}
	m, err := any.UnmarshalNew()
	if err != nil {
		return nil, err
	}
	q, ok := m.(query.Question)
	if !ok {
		return nil, errors.New("the message is not a question of querypb")
	}
	return q, nil
}
