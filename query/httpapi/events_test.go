package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query/httpapi"
)

// Transitions implements httpapi.Observed: whatever is put into told, until that is closed.
func (o *operated) Transitions(ctx context.Context, causes bool) iter.Seq[any] {
	return func(yield func(any) bool) {
		for {
			select {
			case what, open := <-o.told:
				if !open || !yield(map[string]any{"what": what, "causes": causes}) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// Progress implements httpapi.Observed.
func (o *operated) Progress() httpapi.Progress {
	rate := 12.5
	return httpapi.Progress{State: o.State().String(), Tasks: []httpapi.TaskProgress{{Task: "0_1", Lag: 7, Rate: &rate}},
		Restores: []httpapi.RestoreProgress{{Store: "counts", Partition: 1, Restored: 3, Remaining: 9}}}
}

// Stopped implements httpapi.Observed.
func (o *operated) Stopped() <-chan struct{} {
	if o.told == nil { // nothing will be told
		over := make(chan struct{})
		close(over)
		return over
	}
	return o.over
}

// listener reads an event stream.
type listener struct {
	t     *testing.T
	body  *bufio.Scanner
	leave func() error
}

func listen(t *testing.T, url string) *listener {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatal(resp.Status, resp.Header)
	}
	return &listener{t, bufio.NewScanner(resp.Body), resp.Body.Close}
}

// await reads up to the next event of a name. At the end of the stream it gives nil.
func (l *listener) await(name string) map[string]any {
	l.t.Helper()
	event := ""
	for l.body.Scan() {
		if rest, ok := strings.CutPrefix(l.body.Text(), "event: "); ok {
			event = rest
		}
		if rest, ok := strings.CutPrefix(l.body.Text(), "data: "); ok && event == name {
			data := map[string]any{}
			if err := json.Unmarshal([]byte(rest), &data); err != nil {
				l.t.Fatal(rest, err)
			}
			return data
		}
	}
	return nil
}

func observed() *operated {
	return &operated{full: full{fake: fake{state: lifecycle.NodeRunning}}, told: make(chan string), over: make(chan struct{})}
}

// A caller is told at once how far everything is, then each transition as it comes and the progress again and again, and at last
// that nothing follows.
func TestEventsTellWhatHappens(t *testing.T) {
	o := observed()
	server := httptest.NewServer(httpapi.Handler(o, nil))
	defer server.Close()
	l := listen(t, server.URL)
	p := l.await("progress")
	if want := "map[restores:[map[partition:1 remaining:9 restored:3 store:counts]] state:RUNNING tasks:[map[lag:7 rate:12.5 task:0_1]]]"; fmt.Sprint(p) != want {
		t.Errorf("%v, want %s", p, want)
	}
	for _, what := range []string{"one", "<script>\n\n"} {
		o.told <- what
		if got := l.await("transition"); got["what"] != what || got["causes"] != true {
			t.Error(got)
		}
	}
	if l.await("progress") == nil {
		t.Error("the progress is told once only")
	}
	close(o.over)
	if end := l.await("end"); end["state"] != "RUNNING" {
		t.Error(end)
	}
	if l.await("transition") != nil {
		t.Error("something follows the end")
	}
}

// There is a place for so many callers; one that is told to come later gets it when another has gone.
func TestEventsAreForSoManyCallers(t *testing.T) {
	o := observed()
	h, left := httpapi.Handler(o, nil), make(chan struct{}, httpapi.MaxStreams+1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		left <- struct{}{}
	}))
	defer server.Close()
	var last *listener
	for range httpapi.MaxStreams {
		last = listen(t, server.URL)
		last.await("progress")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/events", nil))
	if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "tells 64 callers already") {
		t.Error(w.Code, w.Body)
	}
	last.leave()
	<-left
	listen(t, server.URL).await("progress")
	close(o.over)
}

// A server that shuts down waits for answers; those that have no end of their own end.
func TestEventsEndWithTheServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpapi.Server(httpapi.Handler(observed(), nil))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	client := listen(t, "http://"+l.Addr().String())
	client.await("progress")
	if err := server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end := client.await("end"); end == nil {
		t.Error("nobody says that it is the end")
	}
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
}

// Callers elsewhere are not told causes; a node that tells nothing says so.
func TestEventsAreForWhomTheyMayBe(t *testing.T) {
	o := observed()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/events", nil)
	r.RemoteAddr = "192.0.2.1:1234"
	done := make(chan struct{})
	go func() {
		defer close(done)
		httpapi.Handler(o, nil).ServeHTTP(w, r)
	}()
	o.told <- "one"
	o.told <- "two" // it is taken when the first one is being sent
	close(o.over)
	<-done
	if !bytes.Contains(w.Body.Bytes(), []byte(`"causes":false`)) {
		t.Error(w.Body)
	}
	w = httptest.NewRecorder()
	httpapi.Handler(&fake{}, nil).ServeHTTP(w, httptest.NewRequest("GET", "/events", nil))
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "does not tell") {
		t.Error(w.Code, w.Body)
	}
}
