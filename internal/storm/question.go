package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/millrace-io/millrace/internal/storm/ask"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// errUntyped is in the chain of what is neither a value nor a typed failure.
var errUntyped = errors.New("not typed")

// messenger asks one node by the messages of querypb.
type messenger struct{ *member }

// Ask implements query.Client.
func (m messenger) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	r, err := m.Client.Ask(ctx, q)
	if errors.Is(err, ask.ErrLost) {
		return nil, m.lost(ctx, q, err)
	}
	return r, err
}

// Partitions implements query.Client: the storm has made the topic.
func (messenger) Partitions(context.Context, string) (int32, error) { return partitions, nil }

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
	status, body, err := b.Request(ctx, http.MethodGet, "/stores/"+get.About.Store+"/keys/"+string(get.Key), nil)
	if err != nil {
		return nil, b.lost(ctx, get, err)
	}
	return page(status, body)
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
		if a.Type == "urn:millrace:failure:"+k.String() {
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

// position is where a reply says that a partition is.
func position(r *querypb.Reply) int64 {
	tp := record.TopicPartition{Topic: inputTopic, Partition: r.GetPartition()}
	if at, ok := query.FromPositions(r.GetPosition())[tp]; ok {
		return at
	}
	return none
}
