package millrace_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/lifecycle"
)

// seen is what a browser without script gets.
func seen(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	return string(body)
}

// A node is shown in every state that it is in; while it runs, with what it has and what its stores hold.
func TestPageOfANode(t *testing.T) {
	c := cluster(t)
	n, err := millrace.New("app", wordCount(t), onto(t, c)...)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(n.Handler())
	defer server.Close()
	if got := seen(t, server.URL); !strings.Contains(got, "It is starting") || !strings.Contains(got, "not known yet") {
		t.Error(got)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(t.Context()) }()
	feed(t, c, "the cat and the dog")
	if err := n.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := seen(t, server.URL+"/?store=counts&ask=get&key=the")
	for _, want := range []string{"8 of 8 are on this node", `data-name="thread-1"`, "task-1_3", "store-counts-1_0", "tasks 1_*", "app-counts-changelog", `<code>2</code>`, "/app/thread-1"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %s:\n%s", want, got)
		}
	}
	if err := n.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ended
	if got := seen(t, server.URL); !strings.Contains(got, "It has ended in good order") {
		t.Error(got)
	}
	if got := seen(t, server.URL+"/events"); !strings.Contains(got, `event: end`) || !strings.Contains(got, `{"state":"NOT_RUNNING"}`) {
		t.Error(got)
	}
}

// shows is what the page has in its tree behind the name of a thread.
func shows(n *millrace.Node, thread string) string {
	w := httptest.NewRecorder()
	n.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	_, after, _ := strings.Cut(w.Body.String(), `<li data-name="`+thread+`">`)
	place, _, _ := strings.Cut(after, "</div>")
	return place
}

// A thread that waits for its restart when its node ends has ended with it: stream threads, and those of global stores.
func TestPageShowsTheEndOfAThreadThatWaited(t *testing.T) {
	for thread, waiting := range map[string]func(*testing.T) *running{
		"thread-1": func(t *testing.T) *running {
			c := cluster(t)
			n := start(t, callback(t, once()), onto(t, c, slow)...)
			feed(t, c, "fail")
			return n
		},
		"global-countries": func(t *testing.T) *running {
			a := newAtlas(t)
			a.put("at", "Austria")
			disk := newFailingDisk(tablesOf("global-countries"))
			n := a.start(travels(t, newCountries()), disk.option(20*time.Millisecond), slow)
			a.holds(n)
			disk.fails.Store(true)
			a.put("ch", "Switzerland")
			return n
		},
	} {
		t.Run(thread, func(t *testing.T) {
			n := waiting(t)
			of := func() lifecycle.ThreadStatus {
				threads := n.Threads()
				return threads[slices.IndexFunc(threads, func(s lifecycle.ThreadStatus) bool { return s.Name == thread })]
			}
			await(t.Context(), t, func() bool { return !of().Retry.IsZero() }, func() string { return fmt.Sprint(n.Threads()) })
			if got := shows(n.Node, thread); !strings.Contains(got, "REBALANCING") || !strings.Contains(got, "starts again at") {
				t.Error(got)
			}
			if err := n.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s := of(); s.State != lifecycle.ThreadNotRunning || s.Cause == nil || !s.Retry.IsZero() {
				t.Error(s)
			}
			if got := shows(n.Node, thread); !strings.Contains(got, "NOT_RUNNING") || strings.Contains(got, "starts again at") || !strings.Contains(got, "Last cause") {
				t.Error(got)
			}
		})
	}
}

// A record at which a task stands is on the page, with its cause for those on this machine.
func TestPageTellsOfQuarantine(t *testing.T) {
	c := cluster(t)
	var never atomic.Bool
	n := start(t, callback(t, poisoned(&never)), onto(t, c)...)
	feed(t, c, "fail")
	awaitQuarantine(t, n, 2)
	h, got := n.Handler(), [2]string{}
	for i, addr := range []string{"127.0.0.1:1", "192.0.2.1:1"} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = addr
		h.ServeHTTP(w, r)
		got[i] = w.Body.String()
		if !strings.Contains(got[i], "Record lines-0 offset 0 has failed") || !strings.Contains(got[i], `<span class="flag">quarantined</span>`) {
			t.Error(addr, got[i])
		}
	}
	if told, kept := strings.Contains(got[0], errBroken.Error()), !strings.Contains(got[1], errBroken.Error()); !told || !kept {
		t.Error(fmt.Sprint("told here: ", told, ", kept from elsewhere: ", kept))
	}
}
