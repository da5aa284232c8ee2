package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/remote"
	"github.com/millrace-io/millrace/record"
)

// errUntyped is in the chain of what is neither a value nor a typed failure.
var errUntyped = errors.New("not typed")

// way is how a client asks.
type way string

const (
	// actors asks gates by their PIDs, messages the same questions over HTTP; both are package remote's.
	actors   way = "actors"
	messages way = "HTTP messages"
	// pages reads what people read: JSON, which tells no position.
	pages way = "HTTP pages"
)

// wayOf deals the ways out: of eight clients five, two and one.
func wayOf(i int) way {
	return [...]way{actors, messages, actors, pages, actors, messages, actors, actors}[i%8]
}

// dial makes a client of all nodes. end lets go of it.
func (w way) dial(ctx context.Context, nodes []*member) (c query.Client, end func(), err error) {
	if w == pages {
		clients := map[string]query.Client{}
		for _, m := range nodes {
			clients[m.address] = browser{m}
		}
		return query.Nodes(clients, nil), func() {}, nil
	}
	var addresses []string
	for _, m := range nodes {
		addresses = append(addresses, map[way]string{messages: "http://"}[w]+m.address)
	}
	r, err := remote.Dial(ctx, addresses)
	if err != nil {
		return nil, nil, err
	}
	return r, func() { r.Close() }, nil
}

// browser asks one node by its own HTTP handler.
type browser struct{ *member }

// Partitions implements query.Client.
func (browser) Partitions(context.Context, string) (int32, error) { return partitions, nil }

// Ask implements query.Client.
func (b browser) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	get, ok := q.(*querypb.Get)
	if !ok {
		return nil, fmt.Errorf("%w: a storm has no %T", errUntyped, q)
	}
	status, body, err := b.request(ctx, http.MethodGet, b.address, "/stores/"+get.About.Store+"/keys/"+string(get.Key), nil)
	if err != nil {
		return nil, b.lost(ctx, get, err)
	}
	return page(status, body)
}

// lost says what it means that there was no answer: nothing wrong if the time is over or if the node was killed.
func (m *member) lost(ctx context.Context, q query.Question, err error) error {
	switch about := q.GetAbout(); {
	case ctx.Err() != nil:
		return query.GaveUp(ctx, about.GetStore(), about.GetPartition())
	case m.down.Load():
		return query.New(query.StreamThreadNotRunning, about.GetStore(), about.GetPartition())
	}
	return fmt.Errorf("%w: %w", errUntyped, err)
}

// page reads an answer: a value, or an RFC 9457 problem.
func page(status int, body []byte) (*querypb.Reply, error) {
	var a struct {
		Found     *bool
		Value     string
		Partition int32
		Type      string
		Title     string
		Detail    string
		Retry     string
		Owner     string
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("%w: status %d, %q", errUntyped, status, body)
	}
	if a.Found != nil {
		value := &querypb.Value{Present: *a.Found}
		if *a.Found {
			n, err := strconv.ParseInt(a.Value, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%w: %q", errUntyped, body)
			}
			if value.Value, err = counts.ValueCodec().Encode(nil, n); err != nil {
				return nil, fmt.Errorf("%w: %w", errUntyped, err)
			}
		}
		return &querypb.Reply{Store: counts.StoreName(), Partition: a.Partition, Answer: &querypb.Reply_Value{Value: value}}, nil
	}
	for _, k := range query.Kinds() {
		if strings.HasSuffix(a.Type, ":"+k.String()) {
			f := query.New(k, counts.StoreName(), query.NoPartition)
			f.Owner, f.Detail = a.Owner, a.Detail
			for _, class := range []query.RetryClass{query.Here, query.Rediscover, query.Elsewhere, query.Never} {
				if class.String() == a.Retry {
					f.Retry = class
					return nil, f
				}
			}
		}
	}
	return nil, fmt.Errorf("%w: status %d, %q", errUntyped, status, body)
}

// request makes an HTTP request of the node.
func (m *member) request(ctx context.Context, method, address, path string, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	response, err := m.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// position is where a reply says that a partition is.
func position(r *querypb.Reply) int64 {
	tp := record.TopicPartition{Topic: inputTopic, Partition: r.GetPartition()}
	if at, ok := query.FromPositions(r.GetPosition())[tp]; ok {
		return at
	}
	return none
}
