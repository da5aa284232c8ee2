package ask

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// node answers a Get with its key, and fails everything else as Overloaded. A Get of "slow" waits for the asker to go.
type node struct{ timeout time.Duration }

func (n *node) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	get, ok := q.(*querypb.Get)
	if !ok {
		return nil, query.New(query.Overloaded, q.GetAbout().GetStore(), 1)
	}
	if string(get.Key) == "slow" {
		<-ctx.Done()
		return nil, query.GaveUp(ctx, "s", 0)
	}
	return &querypb.Reply{Answer: &querypb.Reply_Value{Value: &querypb.Value{Present: true, Value: get.Key}}}, nil
}

func (n *node) Partitions(_ context.Context, store string) (int32, error) {
	if store != "a store" {
		return 0, query.New(query.UnknownStateStore, store, query.NoPartition)
	}
	return 7, nil
}

func client(t *testing.T, h http.Handler) *Client {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &Client{strings.TrimPrefix(server.URL, "http://"), server.Client()}
}

func TestQuestionsAndFailuresTravel(t *testing.T) {
	c := client(t, Handler(&node{}))
	r, err := c.Ask(t.Context(), &querypb.Get{About: &querypb.About{Store: "s"}, Key: []byte("k")})
	if err != nil || string(r.GetValue().GetValue()) != "k" {
		t.Error(r, err)
	}
	if _, err := c.Ask(t.Context(), &querypb.Open{About: &querypb.About{Store: "s"}}); !errors.Is(err, query.ErrOverloaded) {
		t.Error(err)
	}
	if n, err := c.Partitions(t.Context(), "a store"); n != 7 || err != nil {
		t.Error(n, err)
	}
	if _, err := c.Partitions(t.Context(), "s"); !errors.Is(err, query.ErrUnknownStateStore) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Ask(ctx, &querypb.Get{About: &querypb.About{Store: "s"}, Key: []byte("slow")}); !errors.Is(err, query.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestWhatIsNoAnswerIsLost(t *testing.T) {
	c := client(t, http.NotFoundHandler())
	q := &querypb.Get{About: &querypb.About{}}
	if _, err := c.Ask(t.Context(), q); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
	c.Address = "127.0.0.1:1"
	if _, err := c.Ask(t.Context(), q); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
	c = client(t, Handler(&node{}))
	for _, body := range []string{"x", "\x0a\x03abc"} {
		if status, _, err := c.Request(t.Context(), http.MethodPost, Path, []byte(body)); status != http.StatusBadRequest || err != nil {
			t.Error(status, err)
		}
	}
}
