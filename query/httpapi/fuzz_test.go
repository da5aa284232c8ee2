package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzMark: what is no mark is refused, and a mark is read as it was written.
func FuzzMark(f *testing.F) {
	for _, m := range []mark{{}, {partition: 3, epoch: 1 << 40, last: []byte("k")}, {last: []byte{}}} {
		f.Add(m.text())
	}
	f.Add("gICAgBA")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMark(text)
		if err != nil {
			return
		}
		again, err := parseMark(m.text())
		if err != nil || m.partition < 0 || !m.begun || again.partition != m.partition || again.epoch != m.epoch || !bytes.Equal(again.last, m.last) || (again.last == nil) != (m.last == nil) {
			t.Fatalf("%q: %+v, then %+v, %v", text, m, again, err)
		}
	})
}

// FuzzScan: whatever the query part of a URL is, it is a scan within the limits, or a mistake.
func FuzzScan(f *testing.F) {
	f.Add("from=a&to=b&limit=3&reverse=true")
	f.Add("key_from=a&key_to=b&from=-1&to=9223372036854775807&resume=AAA")
	f.Add("time=5&earliest_end=1&latest_start=9&limit=%zz")
	f.Fuzz(func(t *testing.T, raw string) {
		for _, kind := range []string{keyValueKind, windowKind, sessionKind} {
			store := &Store{Name: "s", Kind: kind, Ordered: true, ParseKey: func(s string) ([]byte, error) { return []byte(s), nil }}
			known := []string{"from", "to", "time", "key_from", "key_to", "earliest_end", "latest_start"}
			s, err := parseScan(store, &url.URL{RawQuery: raw}, known, func(s *scan, v url.Values) (err error) {
				if err := s.one(v.Get("key_from")); err != nil {
					return err
				}
				if kind == windowKind {
					return starts(s.windows, v)
				}
				return touches(s.windows, v)
			})
			if err == nil && (s.limit < 1 || s.limit > maxLimit || s.begin(3) == nil && len(s.partitions) == 0) {
				t.Fatalf("%q: %+v", raw, s)
			}
		}
	})
}

// FuzzValue: a value is written as encoding/json writes it.
func FuzzValue(f *testing.F) {
	f.Add("key", "value", "topic", int64(7), int32(1), true)
	f.Add("a\"\\\n<é\xff", "", "\u2028", int64(-1), int32(-1), false)
	f.Fuzz(func(t *testing.T, key, text, topic string, n int64, p int32, there bool) {
		v := value{Found: there, Key: key, Timestamp: n, Partition: p}
		if there {
			v.Value, v.Position = &text, []offset{{topic, p, n}, {text, 0, 0}}
		}
		w := httptest.NewRecorder()
		write(w, 200, "application/json", v)
		if got := string(v.append(nil)); got != w.Body.String() || !json.Valid([]byte(got)) {
			t.Fatalf("%s, want %s", got, w.Body)
		}
	})
}

// FuzzPath: no path makes the handler panic, and each has an answer that is JSON, or the description.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"stores/w/windows/a%2Fb?time=1", "stores/w/keys/a@5", "stores//keys/", "owners/w/keys/../..", "stores/w/sessions/a@1..2", "livez"} {
		f.Add(path)
	}
	store := Store{Name: "w", Kind: windowKind, Ordered: true, ParseKey: func(s string) ([]byte, error) { return append([]byte(s), make([]byte, 12)...), nil },
		FormatKey: func(b []byte) (string, error) { return string(b) + "@0", nil }, FormatValue: func(b []byte) (string, error) { return string(b), nil }}
	h := Handler(silent{}, []Store{store})
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI("/" + path)
		if err != nil {
			return
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.URL = u
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		isJSON := strings.Contains(w.Header().Get("Content-Type"), "json")
		if isJSON && !json.Valid(w.Body.Bytes()) || w.Code >= 400 && !isJSON || w.Code == 500 {
			t.Fatalf("%q: %d %s", path, w.Code, w.Body)
		}
	})
}

// FuzzKeys: a body is refused, or names texts that come back from a body of them. A null is never a key.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{`{"keys":["a",""]}`, `{"keys":[null]}`, `{"keys":null}`, `{}`, `[]`, `{"KEYS":["\ud800"]}`, `{"keys":["a"],"keys":["b"]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		keys, ok := keysOf(body)
		if !ok {
			return
		}
		again, err := json.Marshal(map[string][]string{"keys": keys})
		if err != nil {
			t.Fatal(err)
		}
		if twice, ok := keysOf(again); !ok || !slices.Equal(keys, twice) {
			t.Fatalf("%q became %q", keys, twice)
		}
	})
}

// FuzzTokens: whatever a token file holds, it is callers with the rights that it names, or a mistake that tells no secret.
func FuzzTokens(f *testing.F) {
	f.Add("# name secret rights\nshop a-secret-that-is-long read:orders,metrics\nprobes - health\n")
	f.Add("ops sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 read,operate\r\n")
	f.Add("a - read\na sha256:00 \x00\nshop short ,")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := ParseTokens(strings.NewReader(text))
		if err != nil {
			told := strings.ReplaceAll(err.Error(), "read:orders,metrics", "") // what the message itself gives as an example
			for _, word := range strings.Fields(text) {
				if len(word) >= MinTokenLength && !legalCaller(word) && strings.Contains(told, word) {
					t.Fatalf("%q: %v tells %q", text, err, word)
				}
			}
			return
		}
		if len(tokens.list) == 0 || len(tokens.list) > MaxTokens || tokens.caller([]string{"Bearer "}) != nil {
			t.Fatalf("%q: %v", text, tokens)
		}
		for line := range strings.Lines(text) {
			part := strings.Fields(line)
			if len(part) != 3 || strings.HasPrefix(part[0], "#") || part[1] == "-" || strings.HasPrefix(part[1], hashed) {
				continue
			}
			c := tokens.caller([]string{"Bearer " + part[1]})
			if c == nil || c.Name() != part[0] || !slices.Equal(strings.Split(part[2], ","), texts(c.rights)) {
				t.Fatalf("%q: %q gives %+v", text, line, c)
			}
		}
	})
}

func texts(rights []Right) (all []string) {
	for _, r := range rights {
		all = append(all, string(r))
	}
	return all
}
