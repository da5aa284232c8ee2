package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
)

// answering is a node of one partition, or one that fails.
type answering struct {
	keys    []string
	failure *query.Failure
}

func (n *answering) State() lifecycle.Node             { return lifecycle.NodeRunning }
func (n *answering) Threads() []lifecycle.ThreadStatus { return nil }

func (n *answering) Partitions(context.Context, string) (int32, error) {
	if n.failure != nil {
		return 0, n.failure
	}
	return 1, nil
}

func (n *answering) Ask(_ context.Context, q query.Question) (*querypb.Reply, error) {
	if n.failure != nil {
		return nil, n.failure
	}
	reply := &querypb.Reply{Epoch: 1}
	switch q := q.(type) {
	case *querypb.Get:
		reply.Answer = &querypb.Reply_Value{Value: &querypb.Value{Present: slices.Contains(n.keys, string(q.Key)), Value: []byte("v-" + string(q.Key)), Timestamp: 7}}
	case *querypb.Range:
		page := &querypb.Page{}
		keys := slices.Clone(n.keys)
		if q.Reverse {
			slices.Reverse(keys)
		}
		for _, k := range keys {
			if q.From != nil && k < string(q.From) || q.To != nil && (k > string(q.To) || k == string(q.To) && !q.ToInclusive) || q.Resume != nil && (k == string(q.Resume) || k < string(q.Resume) != q.Reverse) {
				continue
			}
			if page.More = len(page.Entries) == int(q.LimitEntries); page.More {
				break
			}
			page.Entries = append(page.Entries, &querypb.Entry{Key: []byte(k), Value: []byte("v-" + k), Timestamp: 7})
		}
		reply.Answer = &querypb.Reply_Page{Page: page}
	case *querypb.ListStores:
		reply.Answer = &querypb.Reply_Stores{Stores: &querypb.StoreList{Stores: []*querypb.Store{{Name: "counts", Kind: "key-value", KeyCodec: "string", ValueCodec: "string", Partitions: 1}}}}
	case *querypb.Locate:
		reply.Answer = &querypb.Reply_Locations{Locations: &querypb.Locations{Partitions: 1, Locations: []*querypb.Location{{Owner: "there:1", State: "serving", Here: true, ThreadState: "RUNNING"}}}}
	}
	return reply, nil
}

func serveNode(t *testing.T, n *answering) string {
	t.Helper()
	plain := func(b []byte) (string, error) { return string(b), nil }
	s := httptest.NewServer(httpapi.Handler(n, []httpapi.Store{{Name: "counts", Kind: "key-value", KeyCodec: "string", Ordered: true, FormatKey: plain, FormatValue: plain,
		ParseKey: func(s string) ([]byte, error) { return []byte(s), nil }}}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func askNode(t *testing.T, addr string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), testApp(), Process{Args: append(args, "--addr", addr), Environ: func() []string { return nil }, Out: &o, Err: &e})
	return code, o.String(), e.String()
}

func TestVerbsAsk(t *testing.T) {
	addr := serveNode(t, &answering{keys: []string{"..", "a", "a/b", "b\tc", "d"}})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "counts", "a"}, "KEY  VALUE  TIMESTAMP  PARTITION\na    v-a    7          0\n"},
		{[]string{"get", "counts", "a", "-o", "json"}, `{"found":true,"key":"a","value":"v-a","timestamp":7,"partition":0}` + "\n"},
		{[]string{"get", "counts", "a/b", "-o", "json"}, `{"found":true,"key":"a/b","value":"v-a/b","timestamp":7,"partition":0}` + "\n"},
		{[]string{"get", "counts", "..", "-o", "json"}, `{"found":true,"key":"..","value":"v-..","timestamp":7,"partition":0}` + "\n"},
		{[]string{"get", "counts", "absent"}, "KEY     VALUE     PARTITION\nabsent  (absent)  0\n"},
		{[]string{"get", "counts", "absent", "-o", "json"}, `{"found":false,"key":"absent","partition":0}` + "\n"},
		{[]string{"scan", "counts", "--from", "b"}, "KEY     VALUE     TIMESTAMP  PARTITION\n\"b\\tc\"  \"v-b\\tc\"  7          0\nd       v-d       7          0\n"},
		{[]string{"scan", "counts", "--prefix", "a", "-o", "json"}, `{"key":"a","value":"v-a","timestamp":7,"partition":0}` + "\n" + `{"key":"a/b","value":"v-a/b","timestamp":7,"partition":0}` + "\n"},
		{[]string{"scan", "counts", "--from", "a", "--to", "a", "-o", "json"}, `{"key":"a","value":"v-a","timestamp":7,"partition":0}` + "\n"},
		{[]string{"scan", "counts", "--from", "x"}, "KEY  VALUE  TIMESTAMP  PARTITION\n"},
		{[]string{"scan", "counts", "--limit", "1", "-o", "json"}, `{"key":"..","value":"v-..","timestamp":7,"partition":0}` + "\n"},
		{[]string{"stores"}, "STORE   KIND       KEY  KEY CODEC  VALUE CODEC  PARTITIONS\ncounts  key-value  key  string     string       1\n"},
		{[]string{"owners", "counts", "a"}, "PARTITION  OWNER    HERE  STATE    THREAD\n0          there:1  true  serving  RUNNING\n"},
		{[]string{"owners", "counts"}, "PARTITION  OWNER    HERE  STATE    THREAD\n0          there:1  true  serving  RUNNING\n"},
		{[]string{"scan", "counts", "--from", "b", "--reverse", "-o", "json"}, `{"key":"d","value":"v-d","timestamp":7,"partition":0}` + "\n" + `{"key":"b\tc","value":"v-b\tc","timestamp":7,"partition":0}` + "\n"},
		{[]string{"owners", "counts", "-o", "json"}, `[{"store":"counts","partition":0,"owner":"there:1","here":true,"state":"serving","thread":"RUNNING"}]` + "\n"},
	} {
		if code, out, errs := askNode(t, addr, c.args...); code != 0 || out != c.want || errs != "" {
			t.Errorf("%v: %d\n%s%s want\n%s", c.args, code, out, errs, c.want)
		}
	}
}

// A scan of everything goes through all pages without a gap or a repetition.
func TestScanReadsEveryPage(t *testing.T) {
	n := &answering{}
	for i := range 2_345 {
		n.keys = append(n.keys, fmt.Sprintf("key-%05d", i))
	}
	addr := serveNode(t, n)
	for limit, want := range map[string]int{"0": 2_345, "1500": 1_500, "1": 1, "9999": 2_345} {
		code, out, errs := askNode(t, addr, "scan", "counts", "--limit", limit, "-o", "json")
		var got []string
		for line := range strings.Lines(out) {
			var e entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Key)
		}
		if code != 0 || !slices.Equal(got, n.keys[:want]) {
			t.Errorf("--limit %s: %d, %d entries: %s", limit, code, len(got), errs)
		}
	}
}

// What the node that is asked does with the partition of another one says nothing about it.
func TestOwnersRows(t *testing.T) {
	for _, c := range []struct {
		l    location
		want string
	}{
		{location{0, "me:1", true, "serving", "RUNNING"}, "0 me:1 true serving RUNNING"},
		{location{1, "", true, "opening", "RUNNING"}, "1 me:1 true opening RUNNING"},
		{location{2, "you:1", false, "revoked", "RUNNING"}, "2 you:1 false elsewhere -"},
		{location{3, "you:1", false, "none", ""}, "3 you:1 false elsewhere -"},
		{location{4, "", false, "revoked", "RUNNING"}, "4 (not known) false not here -"},
		{location{5, "you:1", false, "standby", "RUNNING"}, "5 you:1 false standby RUNNING"},
	} {
		if got := strings.Join(c.l.row("me:1"), " "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// The exit code is the failure's retry class, for every kind; an owner is followed.
func TestExitCodesAreRetryClasses(t *testing.T) {
	for _, k := range query.Kinds() {
		f := query.New(k, "counts", 0)
		want := exitAsk + int(f.Retry) - 1
		code, out, errs := askNode(t, serveNode(t, &answering{failure: f}), "get", "counts", "a")
		if code != want || code < 10 || code > 13 || out != "" || !strings.HasPrefix(errs, "millrace: "+k.String()) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: %d, want %d: %s%s", k, code, want, out, errs)
		}
	}
	moved := query.New(query.StateStoreMigrated, "counts", 0)
	moved.Owner = serveNode(t, &answering{keys: []string{"a"}})
	if code, out, errs := askNode(t, serveNode(t, &answering{failure: moved}), "get", "counts", "a"); code != 0 || !strings.Contains(out, "v-a") {
		t.Errorf("the owner is not followed: %d %s%s", code, out, errs)
	}
	around := query.New(query.StateStoreMigrated, "counts", 0)
	around.Owner = serveNode(t, &answering{failure: around})
	if code, _, _ := askNode(t, around.Owner, "get", "counts", "a"); code != 11 {
		t.Errorf("an owner that names itself: %d", code)
	}
	gone := query.New(query.StateStoreMigrated, "counts", 0)
	gone.Owner = "127.0.0.1:1"
	addr := serveNode(t, &answering{failure: gone})
	if code, _, errs := askNode(t, addr, "get", "counts", "a"); code != 11 || !strings.Contains(errs, "127.0.0.1:1, which is the owner for "+addr) {
		t.Errorf("an owner that is gone: %d %s", code, errs)
	}
}

func TestAskingNobody(t *testing.T) {
	stuck := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	other := httptest.NewServer(http.NotFoundHandler())
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"detail":"the node wants a bearer token","retry":"never"}`)
	}))
	defer func() { close(stuck); slow.Close(); other.Close(); secure.Close(); closed.Close() }()
	for _, c := range []struct {
		code       int
		addr, says string
		args       []string
	}{
		{12, "127.0.0.1:1", "cannot be asked", nil},
		{10, strings.TrimPrefix(slow.URL, "http://"), "does not answer within 50ms", []string{"--timeout", "50ms"}},
		{1, strings.TrimPrefix(other.URL, "http://"), "not as a Millrace node does", nil},
		{2, strings.TrimPrefix(secure.URL, "https://"), "wants TLS; give --addr " + secure.URL, nil},
		{13, secure.URL, "unknown authority; give its authority with --ca", nil},
		{13, strings.TrimPrefix(closed.URL, "http://"), "the node wants a bearer token; give it in MILLRACE_TOKEN or with --token-file", nil},
		{2, "nowhere", "is no address", nil},
		{2, "127.0.0.1:1", "--timeout", []string{"--timeout", "0s"}},
		{2, "127.0.0.1:1", "--ca", []string{"--ca", "/does/not/exist"}},
		{2, "127.0.0.1:1", "--cert", []string{"--cert", "/does/not/exist"}},
		{2, "127.0.0.1:1", "--output", []string{"-o", "xml"}},
	} {
		code, out, errs := askNode(t, c.addr, append([]string{"get", "counts", "a"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s %v: %d %s%s", c.addr, c.args, code, out, errs)
		}
	}
	for _, args := range [][]string{{"scan", "counts", "--limit", "-1"}, {"scan", "counts", "--prefix", "a", "--to", "b"}, {"get", "counts"},
		{"get", "", "a"}, {"scan", ""}, {"owners", ""}} {
		if code, _, errs := askNode(t, "127.0.0.1:1", args...); code != 2 {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
}
