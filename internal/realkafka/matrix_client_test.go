//go:build realkafka

package realkafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
)

// direct asks one node by its HTTP handler and nobody else: remote.Dial would follow a failure to the owner that it names.
type direct struct {
	address string
	http    *http.Client
}

var _ query.Client = (*direct)(nil)

// Ask implements query.Client.
func (d *direct) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	if deadline, ok := ctx.Deadline(); ok {
		q.GetAbout().TimeoutMs = max(1, time.Until(deadline).Milliseconds())
	}
	body, err := proto.Marshal(q)
	if err != nil {
		return nil, err
	}
	name := string(proto.MessageName(q))
	_, answer, err := d.request(ctx, http.MethodPost, "/ask/"+name[strings.LastIndexByte(name, '.')+1:], body)
	if err != nil {
		return nil, err
	}
	reply := &querypb.Reply{}
	if err := proto.Unmarshal(answer, reply); err != nil {
		return nil, fmt.Errorf("%q is not a reply: %w", answer, err)
	}
	if err := query.FromReply(reply); err != nil {
		return nil, err
	}
	return reply, nil
}

// Partitions implements query.Client, as a client over HTTP can: from the list of stores.
func (d *direct) Partitions(ctx context.Context, store string) (int32, error) {
	r, err := d.Ask(ctx, &querypb.ListStores{About: &querypb.About{Store: store}})
	if err != nil {
		return 0, err
	}
	for _, s := range r.GetStores().GetStores() {
		if s.GetName() == store && s.GetPartitions() > 0 {
			return s.GetPartitions(), nil
		}
	}
	return 0, errors.New("the node does not know yet")
}

// request makes any HTTP request of the process.
func (d *direct) request(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+d.address+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", httpapi.ProtobufType)
	response, err := d.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}
