package httpapi_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

const sampleWindow = 10 * time.Millisecond

// text makes functions of text of a codec.
func text[T any](c codec.Codec[T], suffix ...byte) (parse func(string) ([]byte, error), format func([]byte) (string, error)) {
	parse = func(s string) ([]byte, error) {
		v, err := c.ParseText(s)
		if err != nil {
			return nil, err
		}
		b, err := c.Encode([]byte{}, v)
		return append(b, suffix...), err
	}
	format = func(b []byte) (string, error) {
		v, err := c.Decode(b[:len(b)-len(suffix)])
		return c.FormatText(v), err
	}
	return parse, format
}

// windowed is a window store or a session store of strings.
func windowed(name, kind string) httpapi.Store {
	_, plain := text(codec.String)
	s := httpapi.Store{Name: name, Kind: kind, KeyCodec: "string", Ordered: true, WindowSize: sampleWindow, FormatValue: plain}
	if kind == "window" {
		s.ParseKey, s.FormatKey = text(codec.TimeWindowed(codec.String, sampleWindow), 0, 0, 0, 0)
	} else {
		s.ParseKey, s.FormatKey = text(codec.SessionWindowed(codec.String))
	}
	return s
}

type span struct {
	key        string
	start, end int64
	partition  int32
}

// calendar is a node with windows, or sessions, in three partitions. A page of it looks at five of them, and holds two.
type calendar struct {
	kind   string
	spans  []span
	failed *query.Failure
	asked  []query.Question
}

func (c *calendar) Partitions(context.Context, string) (int32, error) { return 3, nil }
func (c *calendar) State() lifecycle.Node                             { return lifecycle.NodeRunning }
func (c *calendar) Threads() []lifecycle.ThreadStatus                 { return nil }

func (c *calendar) encode(s span) []byte {
	if c.kind == "session" {
		return record.AppendSessionSuffix([]byte(s.key), s.start, s.end)
	}
	return record.AppendWindowSuffix([]byte(s.key), s.start, 0)
}

// rows are the windows of a partition in the order of a scan.
func (c *calendar) rows(partition int32, reverse bool) (rows []span) {
	for _, s := range c.spans {
		if s.partition == partition {
			rows = append(rows, s)
		}
	}
	slices.SortFunc(rows, func(a, b span) int { return bytes.Compare(c.encode(a), c.encode(b)) })
	if reverse {
		slices.Reverse(rows)
	}
	return rows
}

func within(s span, w *querypb.Windows) bool {
	return (w.KeyFrom == nil || s.key >= string(w.KeyFrom)) && (w.KeyTo == nil || s.key <= string(w.KeyTo)) &&
		(w.StartFrom == nil || s.start >= *w.StartFrom) && (w.StartTo == nil || s.start <= *w.StartTo) && (w.EndFrom == nil || s.end >= *w.EndFrom)
}

func (c *calendar) Ask(_ context.Context, q query.Question) (*querypb.Reply, error) {
	c.asked = append(c.asked, q)
	if c.failed != nil {
		return nil, c.failed
	}
	p := q.GetAbout().GetPartition()
	reply := &querypb.Reply{Partition: p, Epoch: 4, Position: []*querypb.Position{{Topic: "t", Partition: p, Next: 9}}}
	r, ok := q.(*querypb.Range)
	if !ok {
		key := q.(*querypb.Get).Key
		at := slices.IndexFunc(c.rows(p, false), func(s span) bool { return bytes.Equal(c.encode(s), key) })
		reply.Answer = &querypb.Reply_Value{Value: &querypb.Value{Present: at >= 0, Value: []byte("v")}}
		return reply, nil
	}
	page, looked := &querypb.Page{}, 0
	for _, s := range c.rows(p, r.Reverse) {
		key := c.encode(s)
		if past := bytes.Compare(key, r.Resume); r.Resume != nil && (past == 0 || past < 0 != r.Reverse) {
			continue
		}
		if page.More = looked == 5 || len(page.Entries) == min(2, int(r.LimitEntries)); page.More {
			break
		}
		looked++
		if page.Resume = key; within(s, r.Windows) {
			page.Resume = nil
			page.Entries = append(page.Entries, &querypb.Entry{Key: key, Value: []byte(fmt.Sprint(s.start)), Timestamp: s.end})
		}
	}
	reply.Answer = &querypb.Reply_Page{Page: page}
	return reply, nil
}

type windowPage struct {
	Entries []struct {
		Key, Value            string
		Start, End, Timestamp int64
		Partition             int32
	}
	Position []struct {
		Topic           string
		Partition, Next int64
	}
	Next, Title, Detail string
}

func (c *calendar) get(t rapid.TB, path string) (int, windowPage) {
	t.Helper()
	w := httptest.NewRecorder()
	words := words
	words.Name = "words"
	httpapi.Handler(c, []httpapi.Store{windowed("w", c.kind), words}).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	var out windowPage
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%s: %d %s: %v", path, w.Code, w.Body, err)
	}
	return w.Code, out
}

// drawn are windows whose keys interleave in the order of bytes.
func drawn(t *rapid.T, kind string) *calendar {
	c := &calendar{kind: kind}
	seen := map[string]bool{}
	for range rapid.IntRange(0, 40).Draw(t, "windows") {
		s := span{key: rapid.SampledFrom([]string{"", "a", "a\x00", "b@2", "ü/ "}).Draw(t, "key"), start: rapid.Int64Range(0, 30).Draw(t, "start")}
		if s.end = s.start + 10; kind == "session" {
			s.end = s.start + rapid.Int64Range(0, 10).Draw(t, "length")
		}
		s.partition = record.Partition([]byte(s.key), 3)
		if !seen[fmt.Sprint(s)] {
			seen[fmt.Sprint(s)] = true
			c.spans = append(c.spans, s)
		}
	}
	return c
}

// asked is a request and the windows that it means.
func asked(t *rapid.T, kind string) (path string, means func(span) bool) {
	values, w := url.Values{}, &querypb.Windows{}
	at := func(name string, bound **int64) {
		if rapid.Bool().Draw(t, name) {
			v := rapid.Int64Range(-2, 35).Draw(t, name)
			values.Set(name, fmt.Sprint(v))
			*bound = &v
		}
	}
	names := map[string][2]string{"window": {"from", "to"}, "session": {"earliest_end", "latest_start"}}[kind]
	if kind == "window" && rapid.Bool().Draw(t, "one start") {
		at("time", &w.StartFrom)
		w.StartTo = w.StartFrom
	} else if at(names[1], &w.StartTo); kind == "window" {
		at(names[0], &w.StartFrom)
	} else {
		at(names[0], &w.EndFrom)
	}
	if w.StartFrom != nil && w.StartTo != nil && *w.StartFrom > *w.StartTo {
		*w.StartFrom, *w.StartTo = *w.StartTo, *w.StartFrom
		values.Set("from", fmt.Sprint(*w.StartFrom))
		values.Set("to", fmt.Sprint(*w.StartTo))
	}
	key := rapid.SampledFrom([]string{"", "a", "a\x00", "b@2", "ü/ ", "none"})
	path = "/stores/w/" + kind + "s"
	switch rapid.IntRange(0, 2).Draw(t, "keys") {
	case 0:
		k := key.Draw(t, "key")
		w.KeyFrom, w.KeyTo = []byte(k), []byte(k)
		path += "/" + url.PathEscape(k)
	case 1:
		low, high := key.Draw(t, "low"), key.Draw(t, "high")
		low, high = min(low, high), max(low, high)
		w.KeyFrom, w.KeyTo = []byte(low), []byte(high)
		values.Set("key_from", low)
		values.Set("key_to", high)
	}
	values.Set("limit", fmt.Sprint(rapid.IntRange(1, 7).Draw(t, "limit")))
	return path + "?" + values.Encode(), func(s span) bool { return within(s, w) }
}

// Every question about windows gives exactly those that it means, in order, forward and backwards, page by page.
func TestWindowsAreWholeAcrossPagesAndPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"window", "session"}).Draw(t, "kind")
		c := drawn(t, kind)
		first, means := asked(t, kind)
		var want []span
		for p := range int32(3) {
			for _, s := range c.rows(p, false) {
				if means(s) {
					want = append(want, s)
				}
			}
		}
		for _, reverse := range []bool{false, true} {
			var got []span
			for path, pages := first+"&reverse="+fmt.Sprint(reverse), 0; path != ""; pages++ {
				code, page := c.get(t, path)
				if code != http.StatusOK || pages > 200 {
					t.Fatal(path, code, page)
				}
				for _, e := range page.Entries {
					got = append(got, span{e.Key, e.Start, e.End, e.Partition})
					if e.Value != fmt.Sprint(e.Start) || e.Timestamp != e.End {
						t.Fatal(e)
					}
				}
				if len(page.Position) == 0 || page.Position[0].Topic != "t" || page.Position[0].Next != 9 {
					t.Fatal("no position", page)
				}
				path = page.Next
			}
			if reverse {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s reverse %t: %v, want %v", first, reverse, got, want)
			}
		}
	})
}

// The windows of one key are asked of its partition alone, which is that of the key without times.
func TestOneKeyIsAskedOfItsPartition(t *testing.T) {
	for _, key := range []string{"", "a", "b", "c", "a@5"} {
		home := record.Partition([]byte(key), 3)
		for kind, paths := range map[string][]string{
			"window":  {"/stores/w/windows/%s", "/stores/w/windows/%s?time=3", "/stores/w/keys/%s@5", "/stores/w/windows/%s?reverse=true"},
			"session": {"/stores/w/sessions/%s", "/stores/w/sessions/%s?earliest_end=1&latest_start=9", "/stores/w/keys/%s@5..7"},
		} {
			for _, path := range paths {
				c := &calendar{kind: kind}
				if code, got := c.get(t, fmt.Sprintf(path, url.PathEscape(key))); code != 200 && code != 404 || got.Title != "" || len(c.asked) != 1 {
					t.Errorf("%s of %q: %d %+v, %d questions", path, key, code, got, len(c.asked))
				} else if p := c.asked[0].GetAbout().GetPartition(); p != home || !c.asked[0].GetAbout().GetDerived() {
					t.Errorf("%s of %q: partition %d is asked, and the key's is %d", path, key, p, home)
				}
			}
		}
	}
}

// A store that looks at much and finds nothing ends no request in a failure: it is gone on with, or handed out.
func TestEmptyPagesAreGoneOnWith(t *testing.T) {
	c := &calendar{kind: "window"}
	for i := range int64(2_000) {
		c.spans = append(c.spans, span{key: "a", start: i, end: i + 10, partition: 0})
	}
	c.spans[1_999].key = "b"
	pages, path := 0, "/stores/w/windows?key_from=b&key_to=b"
	var got []string
	for ; path != ""; pages++ {
		code, page := c.get(t, path)
		if code != http.StatusOK {
			t.Fatal(code, page)
		}
		for _, e := range page.Entries {
			got = append(got, e.Key)
		}
		path = page.Next
	}
	if !slices.Equal(got, []string{"b"}) || pages < 2 {
		t.Errorf("%v in %d pages", got, pages)
	}
}

// turning is a node whose page promises more and gets nowhere.
type turning struct{ calendar }

func (*turning) Ask(_ context.Context, q query.Question) (*querypb.Reply, error) {
	return &querypb.Reply{Answer: &querypb.Reply_Page{Page: &querypb.Page{More: true, Resume: q.(*querypb.Range).Resume}}}, nil
}

func TestAPageThatGetsNowhereIsAFailure(t *testing.T) {
	w := httptest.NewRecorder()
	httpapi.Handler(&turning{}, []httpapi.Store{windowed("w", "window")}).ServeHTTP(w, httptest.NewRequest("GET", "/stores/w/windows", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "StoreFailure") {
		t.Error(w.Code, w.Body)
	}
}

func TestMistakesAboutWindows(t *testing.T) {
	for path, want := range map[string]string{
		"window /stores/w/windows?from=x":                             "400 InvalidQuery: milliseconds",
		"window /stores/w/windows?time=1&to=2":                        "400 InvalidQuery: one or the other",
		"window /stores/w/windows?time=1&time=2":                      "400 InvalidQuery: is there 2 times",
		"window /stores/w/windows?form=1":                             "400 InvalidQuery: no parameter",
		"window /stores/w/windows?earliest_end=1":                     "400 InvalidQuery: no parameter",
		"window /stores/w/windows/a?key_from=a":                       "400 InvalidQuery: no parameter",
		"window /stores/w/windows?reverse=backwards":                  "400 InvalidQuery: neither true nor false",
		"window /stores/w/windows?resume=AAAA":                        "400 InvalidQuery: from its next",
		"window /stores/w/windows?resume=BwA":                         "400 InvalidQuery: from its next",
		"window /stores/w/windows/a?resume=" + other("a"):             "400 InvalidQuery: from its next",
		"window /stores/w/sessions":                                   "400 StateStoreTypeMismatch: at /windows",
		"window /stores/w/all":                                        "400 StateStoreTypeMismatch: at /windows",
		"window /stores/w/range?from=a":                               "400 StateStoreTypeMismatch: at /windows",
		"window /stores/w/keys?key=a@1":                               "400 StateStoreTypeMismatch: at /windows",
		"window /stores/w/keys/a":                                     "400 InvalidQuery: write key@start",
		"session /stores/w/windows/a":                                 "400 StateStoreTypeMismatch: at /sessions",
		"session /stores/w/prefix?prefix=a":                           "400 StateStoreTypeMismatch: at /sessions",
		"session /stores/w/keys/a@1":                                  "400 InvalidQuery: write key@start..end",
		"session /stores/words/sessions":                              "400 StateStoreTypeMismatch: at /keys",
		"session /stores/none/sessions":                               "404 UnknownStateStore: store",
		"session /stores/w/sessions?latest_start=9223372036854775808": "400 InvalidQuery: milliseconds",
	} {
		kind, path, _ := strings.Cut(path, " ")
		c := &calendar{kind: kind}
		status, says, _ := strings.Cut(want, ": ")
		if code, got := c.get(t, path); fmt.Sprint(code, " ", got.Title) != status || !strings.Contains(got.Detail, says) || len(c.asked) > 0 {
			t.Errorf("%s: %d %s: %s, want %s", path, code, got.Title, got.Detail, want)
		}
	}
}

// other is a resume of a partition that is not that of the key.
func other(key string) string {
	return map[int32]string{0: "AQA", 1: "AgA", 2: "AAA"}[record.Partition([]byte(key), 3)]
}

// H13: a range over a codec whose bytes do not sort as its keys is refused, and the rest is not.
func TestARangeOfUnorderedKeysIsRefused(t *testing.T) {
	keys, s := words, windowed("w", "window")
	keys.Ordered, keys.KeyCodec, s.Ordered, s.KeyCodec = false, "int64", false, "int64"
	for path, refused := range map[string]bool{"/stores/counts/range?from=a": true, "/stores/counts/range?to=a": true, "/stores/w/windows?key_from=a": true,
		"/stores/counts/range": false, "/stores/counts/all": false, "/stores/counts/prefix?prefix=a": false, "/stores/w/windows/a": false, "/stores/w/windows?from=1": false} {
		w := httptest.NewRecorder()
		httpapi.Handler(&shelf{keys: [][]string{{}}, epochs: []uint64{1}}, []httpapi.Store{keys, s}).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if want := cmp.Compare(w.Code, 200) > 0; want != refused || refused && !strings.Contains(w.Body.String(), "int64 does not keep the order") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
