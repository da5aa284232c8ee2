package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/cli"
)

// The Kafka client's metrics library keeps one ticker for the whole process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// A node on the embedded broker answers as the comment at the top of main.go says.
func TestAnswers(t *testing.T) {
	out, w := io.Pipe()
	stop, done := make(chan os.Signal, 1), make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		defer w.Close()
		done <- cli.Run(t.Context(), app, cli.Process{Args: []string{"dev", "--listen", "127.0.0.1:0"},
			Environ: func() []string { return nil }, Out: w, Err: &errs, Signals: stop})
	}()
	base := ""
	for lines := bufio.NewScanner(out); base == "" && lines.Scan(); {
		if health := regexp.MustCompile(`curl (http://.*)/readyz`).FindStringSubmatch(lines.Text()); health != nil {
			base = health[1]
		}
	}
	go io.Copy(io.Discard, out)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{
		"/views?page=/pricing": `200 {"page":"/pricing","views":3,"minutes":[{"minute":"2026-11-30T11:00:00Z","views":2},` +
			`{"minute":"2026-11-30T11:01:00Z","views":1}]}`,
		"/views?page=/docs&until=2026-11-30T11:01:59Z": `200 {"page":"/docs","views":2,"minutes":[{"minute":"2026-11-30T11:00:00Z","views":1},` +
			`{"minute":"2026-11-30T11:01:00Z","views":1}]}`,
		"/views?page=/absent":               `200 {"page":"/absent","views":0}`,
		"/views?page=/docs&since=yesterday": `400 since is not a time such as 2026-11-30T11:00:00Z`,
		"/top?minute=2026-11-30T11:00:00Z":  `200 [{"page":"/pricing","views":2},{"page":"/","views":1},{"page":"/docs","views":1}]`,
		"/top":                              `400 minute is not a time such as 2026-11-30T11:00:00Z`,
		"/stores/views/keys/%2Fpricing":     `200 {"found":true,"key":"/pricing","value":"3"`,
	} {
		r, err := client.Get(base + path)
		if err != nil {
			t.Fatal(err, errs.String())
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if got := r.Status[:4] + strings.TrimSpace(string(body)); !strings.HasPrefix(got, want) || want[0] == '4' && got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	stop <- os.Interrupt
	if code := <-done; code != 0 {
		t.Fatal(code, errs.String())
	}
}
