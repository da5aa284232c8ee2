package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
)

// big is a store whose every value is long; it counts who is asking.
type big struct {
	fake
	asking, most atomic.Int64
	hold         chan struct{}
}

func (b *big) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	n := b.asking.Add(1)
	defer b.asking.Add(-1)
	for m := b.most.Load(); n > m && !b.most.CompareAndSwap(m, n); m = b.most.Load() {
	}
	if b.hold != nil {
		select {
		case <-b.hold:
		case <-ctx.Done():
			return nil, query.GaveUp(ctx, "counts", 0)
		}
	}
	value := []byte(strings.Repeat("v", 512<<10))
	switch q := q.(type) {
	case *querypb.GetMany:
		return &querypb.Reply{Answer: &querypb.Reply_Values{Values: &querypb.Values{Values: []*querypb.Value{{Present: true, Value: value}}}}}, nil
	case *querypb.Range:
		key := fmt.Appendf(q.Resume, "k")
		return &querypb.Reply{Answer: &querypb.Reply_Page{Page: &querypb.Page{More: true, Entries: []*querypb.Entry{{Key: key, Value: value}}}}}, nil
	}
	return &querypb.Reply{Answer: &querypb.Reply_Value{Value: &querypb.Value{Present: true, Value: value}}}, nil
}

// serve runs the handler as a node does.
func serve(t *testing.T, n httpapi.Node, change ...func(*http.Server)) string {
	t.Helper()
	s := httpapi.Server(httpapi.Handler(n, []httpapi.Store{words}))
	for _, f := range change {
		f(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(httpapi.Limit(l)) }()
	t.Cleanup(func() { s.Close(); <-done })
	return l.Addr().String()
}

// Thousands of requests at a time: as many as the bound are answered, and the others are told so at once.
func TestTooManyRequestsAreRefused(t *testing.T) {
	n := &big{hold: make(chan struct{})}
	h := httpapi.Handler(n, []httpapi.Store{words})
	var wg sync.WaitGroup
	codes := make([]atomic.Int64, 600)
	ask := func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/stores/counts/all?limit=1", nil))
		codes[w.Code].Add(1)
	}
	for range httpapi.MaxInFlight {
		wg.Go(ask)
	}
	for n.asking.Load() < httpapi.MaxInFlight {
		pause(t)
	}
	refused := 3_000
	if testing.Short() {
		refused = 200
	}
	for range refused {
		ask()
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/livez", nil))
	close(n.hold)
	wg.Wait()
	if got := codes[http.StatusTooManyRequests].Load(); got != int64(refused) || codes[http.StatusOK].Load() != httpapi.MaxInFlight || n.most.Load() > httpapi.MaxInFlight {
		t.Errorf("%d refused, %d answered, %d at a time", got, codes[http.StatusOK].Load(), n.most.Load())
	}
	if w.Code != http.StatusOK {
		t.Error("the health is not answered when the node is busy:", w.Code)
	}
}

func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(time.Millisecond):
	case <-t.Context().Done():
		t.Fatal("the test ends")
	}
}

// A page and an answer about many keys end at the bound of bytes, whatever was asked for.
func TestAnswersAreBounded(t *testing.T) {
	w := httptest.NewRecorder()
	httpapi.Handler(&big{}, []httpapi.Store{words}).ServeHTTP(w, httptest.NewRequest("GET", "/stores/counts/all?limit=5000", nil))
	var page struct {
		Entries []json.RawMessage
		Next    string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.Next == "" || w.Body.Len() > httpapi.MaxAnswerBytes+1<<20 || len(page.Entries) < 8 {
		t.Errorf("a page of %d entries and %d bytes: %v", len(page.Entries), w.Body.Len(), err)
	}
	keys := "?key=a" + strings.Repeat("&key=a", 99)
	w = httptest.NewRecorder()
	httpapi.Handler(&big{}, []httpapi.Store{words}).ServeHTTP(w, httptest.NewRequest("GET", "/stores/counts/keys"+keys, nil))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "ask for fewer keys") {
		t.Errorf("50 MiB of values: %d, %d bytes", w.Code, w.Body.Len())
	}
}

// What is too large to be a question is refused, with a document or with HTTP's own codes.
func TestHugeRequestsAreRefused(t *testing.T) {
	n := &full{}
	base := "http://" + serve(t, n)
	client := &http.Client{}
	defer client.CloseIdleConnections()
	many := `{"keys": ["` + strings.Repeat(`a","`, httpapi.MaxKeys) + `a"]}`
	for name, c := range map[string]struct {
		method, path, contentType, body string
		want                            int
	}{
		"line":         {"GET", "/stores/counts/keys/" + strings.Repeat("k", httpapi.MaxHeaderBytes), "", "", http.StatusRequestURITooLong},
		"longer line":  {"GET", "/nothing/" + strings.Repeat("k", 2*httpapi.MaxHeaderBytes-1000), "", "", http.StatusRequestURITooLong},
		"endless line": {"GET", "/stores/counts/keys/" + strings.Repeat("k", 16*httpapi.MaxHeaderBytes), "", "", http.StatusRequestHeaderFieldsTooLarge},
		"headers":      {"GET", "/livez", strings.Repeat("k", httpapi.MaxHeaderBytes), "", http.StatusRequestHeaderFieldsTooLarge},
		"many keys":    {"POST", "/stores/counts/keys", "application/json", many, http.StatusBadRequest},
		"no keys":      {"GET", "/stores/counts/keys", "", "", http.StatusBadRequest},
		"body":         {"POST", "/stores/counts/keys", "application/json", `{"keys": ["` + strings.Repeat("a", httpapi.MaxBodyBytes) + `"]}`, http.StatusBadRequest},
		"question":     {"POST", "/ask/Get", httpapi.ProtobufType, strings.Repeat("a", httpapi.MaxBodyBytes+1), http.StatusBadRequest},
		"null key":     {"POST", "/stores/counts/keys", "application/json", `{"keys": ["a", null]}`, http.StatusBadRequest},
		"not JSON":     {"POST", "/stores/counts/keys", "application/json", `[`, http.StatusBadRequest},
		"not Protobuf": {"POST", "/ask/Get", httpapi.ProtobufType, "\xff", http.StatusBadRequest},
		"type":         {"POST", "/ask/Get", "text/plain", "", http.StatusBadRequest},
		"message":      {"POST", "/ask/Reply", httpapi.ProtobufType, "", http.StatusBadRequest},
		"limit":        {"GET", "/stores/counts/all?limit=5001", "", "", http.StatusBadRequest},
		"no prefix":    {"GET", "/stores/counts/prefix", "", "", http.StatusBadRequest},
		"approximate":  {"GET", "/stores/counts/count?approximate=maybe", "", "", http.StatusBadRequest},
		"path":         {"GET", "/nothing", "", "", http.StatusNotFound},
		"method":       {"DELETE", "/stores/counts/keys/a", "", "", http.StatusMethodNotAllowed},
	} {
		r, err := http.NewRequest(c.method, base+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", c.contentType)
		answer, err := client.Do(r)
		if err != nil {
			if name != "body" && name != "question" { // the server may close while the client still writes
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("%s: %d, want %d: %.300s", name, answer.StatusCode, c.want, body)
		}
		if name != "endless line" && answer.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: it is no problem document: %.300s", name, body)
		}
	}
}

// Who sends slowly, or does not read, is cut off; others are answered meanwhile.
func TestSlowClientsAreCutOff(t *testing.T) {
	cut := make(chan string, 4096)
	addr := serve(t, &big{}, func(s *http.Server) {
		s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond, 600*time.Millisecond
		s.ConnState = func(c net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				cut <- c.RemoteAddr().String()
			}
		}
	})
	dial := func(request string) net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		return c
	}
	slow := map[string]net.Conn{
		"headers":       dial("GET /stores HTTP/1.1\r\nHost: x\r\n"),
		"nothing":       dial(""),
		"body":          dial("POST /stores/counts/keys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"),
		"does not read": dial(strings.Repeat("GET /stores/counts/all?limit=5000 HTTP/1.1\r\nHost: x\r\n\r\n", 100)),
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for { // a machine that is slow makes a slow client of this one too
		answer, err := client.Get("http://" + addr + "/stores/counts/keys/the")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				break
			}
		}
		pause(t)
	}
	late := time.After(time.Minute)
	for open := maps.Clone(slow); len(open) > 0; {
		select {
		case remote := <-cut:
			maps.DeleteFunc(open, func(_ string, c net.Conn) bool { return c.LocalAddr().String() == remote })
		case <-late:
			t.Fatal("still open: ", slices.Collect(maps.Keys(open)))
		}
	}
	for _, c := range slow {
		c.Close()
	}
}
