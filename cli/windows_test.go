package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// calendar is a node of one partition with windows and sessions of the keys a and b@1.
type calendar struct {
	answering
	asked []string
}

func (c *calendar) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	switch q := q.(type) {
	case *querypb.Range:
		w := q.GetWindows()
		c.asked = append(c.asked, fmt.Sprintf("%s %q-%q %s-%s %s- %t", q.About.Store, w.KeyFrom, w.KeyTo, ms(w.StartFrom), ms(w.StartTo), ms(w.EndFrom), q.Reverse))
		page := &querypb.Page{}
		for _, key := range []string{"a", "b@1"} {
			if w.KeyFrom != nil && key < string(w.KeyFrom) || w.KeyTo != nil && key > string(w.KeyTo) {
				continue
			}
			raw := record.AppendWindowSuffix([]byte(key), 60_000, 0)
			if q.About.Kind == "session" {
				raw = record.AppendSessionSuffix([]byte(key), 1_000, 2_500)
			}
			page.Entries = append(page.Entries, &querypb.Entry{Key: raw, Value: []byte{7: 5}, Timestamp: 7})
		}
		return &querypb.Reply{Epoch: 1, Answer: &querypb.Reply_Page{Page: page}}, nil
	case *querypb.Get:
		c.asked = append(c.asked, fmt.Sprintf("%s get %x", q.About.Store, q.Key))
		return &querypb.Reply{Position: []*querypb.Position{{Topic: "t", Partition: 0, Next: 12}},
			Answer: &querypb.Reply_Value{Value: &querypb.Value{Present: true, Value: []byte{7: 5}, Timestamp: 7}}}, nil
	}
	return c.answering.Ask(ctx, q)
}

func ms(at *int64) string {
	if at == nil {
		return ""
	}
	return number(*at)
}

// serveWindows serves a window store and a session store as a topology declares them.
func serveWindows(t *testing.T, c *calendar) string {
	t.Helper()
	b := topology.NewBuilder()
	words := topology.Through(topology.From(b, topology.NewTopic("words", codec.String, codec.String)), topology.NewRepartition("w", codec.String, codec.String))
	topology.CountWindows(words, topology.TumblingWindows(time.Minute), topology.NewWindowStore("per-minute", codec.String, codec.Int64, time.Minute, time.Hour))
	topology.CountSessions(words, topology.SessionWindows(time.Second), topology.NewSessionStore("visits", codec.String, codec.Int64, time.Hour))
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var stores []httpapi.Store
	for _, sub := range built.SubTopologies {
		for _, st := range sub.Stores {
			stores = append(stores, httpapi.Store{Name: st.Name, Kind: st.Kind, KeyCodec: st.KeyCodec, Ordered: st.KeyOrdered, WindowSize: st.WindowSize,
				ParseKey: st.ParseKey, FormatKey: st.FormatKey, FormatValue: st.FormatValue})
		}
	}
	s := httptest.NewServer(httpapi.Handler(c, stores))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

const (
	minuteHead = "WINDOW     FROM                      TO                        VALUE  TIMESTAMP  PARTITION\n"
	minuteOfA  = "a@60000    1970-01-01T00:01:00.000Z  1970-01-01T00:02:00.000Z  5      7          0\n"
	minuteOfB  = "b@1@60000  1970-01-01T00:01:00.000Z  1970-01-01T00:02:00.000Z  5      7          0\n"
)

func TestVerbsAskForWindows(t *testing.T) {
	for args, want := range map[string]struct{ asked, out string }{
		"get per-minute a@60000":                               {"per-minute get 61000000000000ea6000000000", "KEY      VALUE  TIMESTAMP  PARTITION\na@60000  5      7          0\n"},
		"get per-minute b@1 --at 60000 -o json":                {"per-minute get 624031000000000000ea6000000000", `{"found":true,"key":"b@1@60000","value":"5","timestamp":7,"partition":0,"position":[{"topic":"t","partition":0,"next":12}]}` + "\n"},
		"get per-minute a":                                     {`per-minute "a"-"a" - - false`, strings.ReplaceAll(minuteHead+minuteOfA, "    FROM", "  FROM")},
		"get per-minute b@1 --since 5 --until 60000":           {`per-minute "b@1"-"b@1" 5-60000 - false`, minuteHead + minuteOfB},
		"get visits a -o json":                                 {`visits "a"-"a" - - false`, `{"key":"a","start":1000,"end":2500,"value":"5","timestamp":7,"partition":0}` + "\n"},
		"get visits a --at 2000 --reverse -o json":             {`visits "a"-"a" -2000 2000- true`, `{"key":"a","start":1000,"end":2500,"value":"5","timestamp":7,"partition":0}` + "\n"},
		"get visits a@1000..2500":                              {"visits get 6100000000000009c400000000000003e8", "KEY           VALUE  TIMESTAMP  PARTITION\na@1000..2500  5      7          0\n"},
		"scan per-minute":                                      {`per-minute ""-"" - - false`, minuteHead + minuteOfA + minuteOfB},
		"scan per-minute --from b --reverse":                   {`per-minute "b"-"" - - true`, minuteHead + minuteOfB},
		"scan per-minute --since 1970-01-01T00:00:01Z --to a":  {`per-minute ""-"a" 1000- - false`, ""},
		"scan visits --since 3 --until 4 --from b --limit 1":   {`visits "b"-"" -4 3- false`, "WINDOW          FROM                      TO                        VALUE  TIMESTAMP  PARTITION\nb@1@1000..2500  1970-01-01T00:00:01.000Z  1970-01-01T00:00:02.500Z  5      7          0\n"},
		"scan per-minute --at 60000 --limit 1 --from a --to b": {`per-minute "a"-"b" 60000-60000 - false`, ""},
	} {
		c := &calendar{}
		code, out, errs := askNode(t, serveWindows(t, c), strings.Fields(args)...)
		if code != 0 || errs != "" || !slices.Equal(c.asked, []string{want.asked}) || want.out != "" && align(out) != align(want.out) {
			t.Errorf("%s: %d %s\nasked %q\n want %q\n%s want\n%s", args, code, errs, c.asked, want.asked, out, want.out)
		}
	}
	addr := serveWindows(t, &calendar{})
	for args, says := range map[string]string{
		"get per-minute a --at now":             "is no time",
		"get per-minute a --at 1 --since 2":     "do not go together",
		"scan per-minute --prefix a":            "is of kind window; give --from and --to",
		"scan visits --at 1 --until 2":          "do not go together",
		"get none a --at 1":                     "has no windows",
		"scan none --since 1":                   "has no windows",
		"get per-minute a --limit=-1 --since 5": "below zero",
	} {
		if code, out, errs := askNode(t, addr, strings.Fields(args)...); code != exitUsage || out != "" || !strings.Contains(errs, says) {
			t.Errorf("%s: %d %s%s", args, code, out, errs)
		}
	}
	if code, _, errs := askNode(t, addr, "get", "none", "a"); code != 13 || !strings.Contains(errs, "UnknownStateStore") {
		t.Errorf("%d %s", code, errs)
	}
}

// align makes runs of spaces one, for rows whose columns another test is about.
func align(table string) string {
	return strings.Join(strings.FieldsFunc(table, func(r rune) bool { return r == ' ' }), " ")
}

// The columns of a scan stay where they are from page to page, however long the keys of a page are. The head and a key that is
// longer than the first thousand are the two lines without a value there.
func TestColumnsAreThoseOfAllPages(t *testing.T) {
	n := &answering{}
	for i := range 2_400 {
		n.keys = append(n.keys, fmt.Sprintf("%05d", i)+strings.Repeat("k", (2_400-i)/600))
	}
	n.keys[2_000] += strings.Repeat("k", 9) // it sticks out, and nothing else does
	_, out, _ := askNode(t, serveNode(t, n), "scan", "counts", "--limit", "0")
	at, moved := strings.Index(out, "VALUE"), 0
	for line := range strings.Lines(out) {
		if strings.Index(line, "v-") != at {
			moved++
		}
	}
	if lines := strings.Count(out, "\n"); moved != 2 || lines != 2_401 {
		t.Errorf("%d of %d lines are out of their column", moved, lines)
	}
}

// What was read is printed if a later page fails.
func TestWhatWasReadIsPrinted(t *testing.T) {
	var out bytes.Buffer
	n := &answering{}
	for i := range 20 {
		n.keys = append(n.keys, fmt.Sprintf("k%02d", i))
	}
	broken := &breaking{answering: n, after: 1}
	plain := func(b []byte) (string, error) { return string(b), nil }
	s := httptest.NewServer(httpapi.Handler(broken, []httpapi.Store{{Name: "counts", Kind: "key-value", FormatKey: plain, FormatValue: plain}}))
	defer s.Close()
	code := Run(t.Context(), testApp(), Process{Args: []string{"scan", "counts", "--limit", "20", "--addr", strings.TrimPrefix(s.URL, "http://")},
		Environ: func() []string { return nil }, Out: &out, Err: &out})
	if code != 12 || strings.Count(out.String(), "v-k") != 7 || !strings.Contains(out.String(), "StoreFailure") {
		t.Errorf("%d %s", code, out.String())
	}
}

// breaking is a node that fails after so many pages, each of seven entries.
type breaking struct {
	*answering
	after int
}

func (b *breaking) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	if r, ok := q.(*querypb.Range); ok {
		if b.after--; b.after < 0 {
			return nil, query.New(query.StoreFailure, "counts", 0)
		}
		r.LimitEntries = 7
	}
	return b.answering.Ask(ctx, q)
}
