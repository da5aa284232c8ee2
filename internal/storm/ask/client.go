package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// ErrLost is in the chain of what is no answer: the connection was cut, or what came is no Reply.
var ErrLost = errors.New("no answer")

// Client asks the process at Address, host:port.
type Client struct {
	Address string
	HTTP    *http.Client
}

var _ query.Client = (*Client)(nil)

// Ask implements query.Client. Its error is a *query.Failure, or ErrLost is in its chain.
func (c *Client) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	about := q.GetAbout()
	if deadline, ok := ctx.Deadline(); ok {
		about.TimeoutMs = max(1, time.Until(deadline).Milliseconds())
	}
	any, err := anypb.New(q)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	body, err := proto.Marshal(any)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	return c.reply(ctx, http.MethodPost, Path, body, about.GetStore(), about.GetPartition())
}

// Partitions implements query.Client.
func (c *Client) Partitions(ctx context.Context, store string) (int32, error) {
	r, err := c.reply(ctx, http.MethodGet, Path+"?store="+url.QueryEscape(store), nil, store, query.NoPartition)
	return r.GetLocations().GetPartitions(), err
}

func (c *Client) reply(ctx context.Context, method, path string, body []byte, store string, partition int32) (*querypb.Reply, error) {
	status, text, err := c.Request(ctx, method, path, body)
	if ctx.Err() != nil {
		return nil, query.GaveUp(ctx, store, partition)
	}
	if err != nil {
		return nil, err
	}
	reply := &querypb.Reply{}
	if err := proto.Unmarshal(text, reply); err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("%w: status %d, %q", ErrLost, status, text)
	}
	if err := query.FromReply(reply); err != nil {
		return nil, err
	}
	return reply, nil
}

// Request makes any HTTP request of the process. ErrLost is in the chain of its error.
func (c *Client) Request(ctx context.Context, method, path string, body []byte) (status int, text []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.Address+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	response, err := c.HTTP.Do(r)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	defer response.Body.Close()
	if text, err = io.ReadAll(response.Body); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	return response.StatusCode, text, nil
}
