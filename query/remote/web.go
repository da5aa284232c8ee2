package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// web is the transport by HTTP/1: POST /ask/<message> of package httpapi, which takes and gives the messages of querypb.
type web struct {
	base   string
	token  string
	client *http.Client
}

func newWeb(s settings, base string) *web {
	dialer := &net.Dialer{Timeout: ConnectTime}
	return &web{base: base, token: s.token, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: s.clientTLS(), TLSHandshakeTimeout: ConnectTime,
			MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute, DisableCompression: true}}}
}

// protobufType is the media type of querypb's messages.
const protobufType = "application/x-protobuf"

func (w *web) ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	reply, status, err := w.post(ctx, q)
	gone := query.StateStoreNotAvailable
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		gone = query.StreamThreadNotRunning
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound:
		err = errStranger
	case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
		err = errFull
	case err == nil && reply == nil:
		err = errStranger
	}
	if err != nil {
		return nil, failure(ctx, q.GetAbout(), err, gone)
	}
	return reply, nil
}

// post gives a reply, or the status of an answer that holds none.
func (w *web) post(ctx context.Context, q query.Question) (*querypb.Reply, int, error) {
	encoded, err := encode(ctx, q)
	if err != nil {
		return nil, 0, &badQuestion{err}
	}
	name := string(proto.MessageName(q))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+"/ask/"+name[strings.LastIndexByte(name, '.')+1:], bytes.NewReader(encoded))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Content-Type", protobufType)
	if w.token != "" {
		request.Header.Set("Authorization", "Bearer "+w.token)
	}
	answer, err := w.client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, MaxAnswer+1))
	if err != nil {
		return nil, 0, err
	}
	if answer.Header.Get("Content-Type") != protobufType {
		return nil, answer.StatusCode, nil
	}
	reply := &querypb.Reply{}
	if err := proto.Unmarshal(body, reply); err != nil {
		return query.ToReply(query.New(query.StoreFailure, q.GetAbout().GetStore(), q.GetAbout().GetPartition())), 0, nil
	}
	return reply, 0, nil
}

func (w *web) close() { w.client.CloseIdleConnections() }
