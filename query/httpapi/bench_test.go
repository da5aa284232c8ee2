package httpapi

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkGet is a single get on loopback by clients that keep their connections and write the bytes of a request
// themselves: the client costs as little as it can. "bare" is net/http with an answer of the same length and nothing else,
// so the ratio of the two is what this package costs.
func BenchmarkGet(b *testing.B) {
	store := Store{Name: "counts", Kind: keyValueKind, Ordered: true, ParseKey: func(s string) ([]byte, error) { return []byte(s), nil },
		FormatValue: func(b []byte) (string, error) { return string(b), nil }}
	answer := []byte(`{"found":true,"key":"water","value":"42","timestamp":1700000000000,"partition":2,"position":[{"topic":"lines","partition":2,"next":123456}]}` + "\n")
	for name, h := range map[string]http.Handler{
		"bare": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = jsonType
			_, _ = w.Write(answer)
		}),
		"get": Handler(silent{}, []Store{store}),
	} {
		b.Run(name, func(b *testing.B) {
			s := httptest.NewUnstartedServer(h)
			s.Config = Server(h)
			s.Start()
			defer s.Close()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) { gets(b, pb, s.Listener.Addr().String()) })
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "gets/s")
		})
	}
}

// gets asks on one connection.
func gets(b *testing.B, pb *testing.PB, addr string) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Error(err)
		return
	}
	defer c.Close()
	r := bufio.NewReader(c)
	ask := []byte("GET /stores/counts/keys/water HTTP/1.1\r\nHost: node\r\n\r\n")
	for pb.Next() {
		if _, err := c.Write(ask); err != nil {
			b.Error(err)
			return
		}
		answer, err := http.ReadResponse(r, nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			b.Error(err)
			return
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			b.Error(err)
			return
		}
	}
}
