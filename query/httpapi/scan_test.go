package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
)

// shelf is a node whose store has keys in some partitions. Its pages hold at most two entries.
type shelf struct {
	keys   [][]string
	epochs []uint64
	asked  []*querypb.Range
	// fails has what a partition says in the place of a page.
	fails map[int32]query.Kind
}

func (s *shelf) Ask(_ context.Context, q query.Question) (*querypb.Reply, error) {
	r := q.(*querypb.Range)
	p := r.GetAbout().GetPartition()
	s.asked = append(s.asked, r)
	if kind, ok := s.fails[p]; ok {
		return nil, query.New(kind, "counts", p)
	}
	if e := r.GetAbout().GetEpoch(); e != 0 && e != s.epochs[p] {
		return nil, query.New(query.StateStoreMigrated, "counts", p)
	}
	page := &querypb.Page{}
	keys := slices.Clone(s.keys[p])
	if r.Reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		k := []byte(key)
		past := bytes.Compare(k, r.Resume)
		if r.From != nil && bytes.Compare(k, r.From) < 0 || r.To != nil && bytes.Compare(k, r.To) > 0 || r.Resume != nil && (past == 0 || past < 0 != r.Reverse) {
			continue
		}
		if page.More = len(page.Entries) == min(2, int(r.LimitEntries)); page.More {
			break
		}
		e := &querypb.Entry{Timestamp: 7}
		if key != "" { // the wire makes nil of empty
			e.Key, e.Value = k, k
		}
		page.Entries = append(page.Entries, e)
	}
	return &querypb.Reply{Epoch: s.epochs[p], Answer: &querypb.Reply_Page{Page: page}}, nil
}

func (s *shelf) Partitions(context.Context, string) (int32, error) { return int32(len(s.keys)), nil }
func (s *shelf) State() lifecycle.Node                             { return lifecycle.NodeRunning }
func (s *shelf) Threads() []lifecycle.ThreadStatus                 { return nil }

type scanned struct {
	Entries []struct {
		Key, Value string
		Timestamp  int64
		Partition  int32
	}
	Next  string
	Title string
}

func (s *shelf) get(t rapid.TB, path string) (int, scanned) {
	t.Helper()
	w := httptest.NewRecorder()
	httpapi.Handler(s, []httpapi.Store{words}).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	var out scanned
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%s: %d %s: %v", path, w.Code, w.Body, err)
	}
	return w.Code, out
}

// Following next from page to page gives every entry between the bounds once, in order, however small the pages are.
func TestScansAreWholeAcrossPagesAndPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching("[a-c]{0,2}")
		s := &shelf{}
		var want []string
		from, to := key.Draw(t, "from"), key.Draw(t, "to")
		bounded := rapid.Bool().Draw(t, "bounded")
		for range rapid.IntRange(1, 4).Draw(t, "partitions") {
			keys := rapid.SliceOfNDistinct(key, 0, 8, rapid.ID).Draw(t, "keys")
			slices.Sort(keys)
			s.keys, s.epochs = append(s.keys, keys), append(s.epochs, 3)
			for _, k := range keys {
				if !bounded || from <= k && k <= to {
					want = append(want, fmt.Sprintf("%d/%s", len(s.keys)-1, k))
				}
			}
		}
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		path := fmt.Sprintf("/stores/counts/all?limit=%d", limit)
		if bounded {
			path = fmt.Sprintf("/stores/counts/range?limit=%d&from=%s&to=%s", limit, url.QueryEscape(from), url.QueryEscape(to))
		}
		if rapid.Bool().Draw(t, "reverse") {
			path += "&reverse=true"
			slices.Reverse(want)
		}
		var got []string
		for path != "" {
			code, page := s.get(t, path)
			if code != http.StatusOK || len(page.Entries) > limit {
				t.Fatal(code, page)
			}
			for _, e := range page.Entries {
				if e.Value != e.Key || e.Timestamp != 7 {
					t.Fatal(e)
				}
				got = append(got, fmt.Sprintf("%d/%s", e.Partition, e.Key))
			}
			path = page.Next
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

func TestAScanNeverJoinsTwoCopiesOfAStore(t *testing.T) {
	s := &shelf{keys: [][]string{{"a", "b", "c"}}, epochs: []uint64{1}}
	_, page := s.get(t, "/stores/counts/all?limit=2")
	s.epochs[0] = 2
	if code, p := s.get(t, page.Next); code != http.StatusMisdirectedRequest || p.Title != "StateStoreMigrated" {
		t.Fatal(code, p)
	}
	if !s.asked[len(s.asked)-1].GetAbout().GetHeld() {
		t.Error("the store is not told that it was read before")
	}
}

// What was read before a failure is answered; the failure comes when the next page is asked for.
func TestAFailureInTheMiddleKeepsWhatWasRead(t *testing.T) {
	s := &shelf{keys: [][]string{{"a"}, {"b"}}, epochs: []uint64{1, 1}, fails: map[int32]query.Kind{1: query.StreamThreadRebalancing}}
	code, page := s.get(t, "/stores/counts/all")
	if code != http.StatusOK || len(page.Entries) != 1 || page.Next == "" {
		t.Fatal(code, page)
	}
	if code, p := s.get(t, page.Next); code != http.StatusServiceUnavailable || p.Title != "StreamThreadRebalancing" {
		t.Fatal(code, p)
	}
	delete(s.fails, 1)
	if code, p := s.get(t, page.Next); code != http.StatusOK || len(p.Entries) != 1 || p.Entries[0].Key != "b" || p.Next != "" {
		t.Fatal(code, p)
	}
}

func TestMistakesInScans(t *testing.T) {
	s := &shelf{keys: [][]string{{"a"}}, epochs: []uint64{1}}
	for path, want := range map[string]string{
		"/stores/none/all":                       "404 UnknownStateStore",
		"/stores/counts/all?from=a":              "400 InvalidQuery",
		"/stores/counts/range?form=a":            "400 InvalidQuery",
		"/stores/counts/range?from=7":            "400 InvalidQuery",
		"/stores/counts/all?limit=0":             "400 InvalidQuery",
		"/stores/counts/all?limit=5001":          "400 InvalidQuery",
		"/stores/counts/all?limit=x":             "400 InvalidQuery",
		"/stores/counts/all?resume=%21":          "400 InvalidQuery",
		"/stores/counts/all?resume=" + "gICAgBA": "400 InvalidQuery",
		"/stores/counts/all?limit=%zz":           "400 InvalidQuery",
	} {
		if code, p := s.get(t, path); fmt.Sprint(code, " ", p.Title) != want {
			t.Errorf("%s: %d %s, want %s", path, code, p.Title, want)
		}
	}
	if len(s.asked) > 0 {
		t.Errorf("the store was asked %d times", len(s.asked))
	}
	for _, k := range query.Kinds() {
		s.fails = map[int32]query.Kind{0: k}
		if code, p := s.get(t, "/stores/counts/range?from=a&to="); code < 400 || p.Title != k.String() {
			t.Errorf("%v: %d %s", k, code, p.Title)
		}
	}
	w := httptest.NewRecorder()
	httpapi.Handler(s, []httpapi.Store{words}).ServeHTTP(w, httptest.NewRequest("POST", "/stores/counts/all", strings.NewReader("")))
	if w.Code != http.StatusMethodNotAllowed {
		t.Error(w.Code)
	}
}
