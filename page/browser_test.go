//go:build browser

package page_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/exposition"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	orders = topology.NewTopic("orders", codec.String, codec.String)
	counts = topology.NewKeyValueStore("orders-by-product", codec.String, codec.Int64)
	prices = topology.NewTopic("rates", codec.String, codec.Int64)
	rates  = topology.NewGlobalStore("rates", prices)
)

// shop counts orders by product, which is not their key, and knows rates.
func shop(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	known := topology.JoinGlobal(topology.From(b, orders), rates, func(r record.Record[string, string]) (string, bool) { return r.Key, true },
		func(r record.Record[string, string], _ int64) (string, error) { return r.Value, nil })
	byProduct := topology.Through(topology.Map(known, func(r record.Record[string, string]) (record.Record[string, string], error) {
		return record.New(r.Value, r.Key, r.Timestamp), nil
	}), topology.NewRepartition("by-product", codec.String, codec.String))
	topology.To(topology.Count(byProduct, counts), topology.NewTopic("totals", codec.String, codec.Int64))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// browser is a tab of a real browser. What its console complains about fails the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := os.Getenv("MILLRACE_BROWSER")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("there is no Chromium here: install Debian's package chromium, or name one in MILLRACE_BROWSER")
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()))...)
	t.Cleanup(cancel)
	tab, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	err := chromedp.Listen(tab, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Error(e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			// That the node is gone is what the last part is about.
			if !strings.Contains(e.Entry.Text, "net::ERR") {
				t.Error(e.Entry.Source, e.Entry.Text, e.Entry.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	do(t, tab, step(log.Enable, cdp.Empty{}), step(runtime.Enable, cdp.Empty{}))
	return tab
}

type action = chromedp.Action[chromedp.Void]

// step is a command of the browser's protocol.
func step[P any](c cdp.Command[P, cdp.Empty], params P) action {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, c, params)
		return err
	})
}

func do(t *testing.T, tab context.Context, actions ...action) {
	t.Helper()
	if err := chromedp.Do(tab, actions...); err != nil {
		t.Fatal(err)
	}
}

// holds waits until an expression is true on the page.
func holds(expression string) action {
	return chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(time.Minute))
}

// says waits until an element's text has a part.
func says(selector, part string) action {
	return holds("(document.querySelector(`" + selector + "`) || {textContent: ''}).textContent.includes(`" + part + "`)")
}

// picture puts a screenshot of the whole page where MILLRACE_IMAGES says, if it does.
func picture(t *testing.T, tab context.Context, name string) {
	t.Helper()
	dir := os.Getenv("MILLRACE_IMAGES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

func scheme(name string) action {
	return step(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// scripts turns them on or off.
func scripts(on bool) action {
	return step(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
}

func textOf(t *testing.T, tab context.Context, selector string) string {
	t.Helper()
	text, err := chromedp.Run(tab, chromedp.Text(selector))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A person looks at a node: sees a thread die within a second, asks its stores while it is away, and is told when the node has
// ended and when nobody answers any more.
func TestPageInABrowser(t *testing.T) {
	tab := browser(t)
	metrics, err := exposition.New()
	if err != nil {
		t.Fatal(err)
	}
	cluster := millracetest.NewCluster(t, "shop")
	for _, topic := range []string{"orders", "totals", "rates"} {
		cluster.CreateTopic(topic, 2)
	}
	hour := millrace.WithRestarts(actors.Intensity{Max: 3, Window: 4 * time.Hour, First: time.Hour, Cap: time.Hour})
	node := cluster.Start(shop(t), millrace.WithThreads(2), millrace.WithMeterProvider(metrics), hour)
	server := httptest.NewServer(node.Handler())
	defer server.Close()
	millracetest.Produce(cluster, prices, millracetest.R("ann", int64(3)), millracetest.R("bob", int64(4)))
	millracetest.Produce(cluster, orders, millracetest.R("ann", "book"), millracetest.R("bob", "pen"), millracetest.R("ann", "ink"))
	node.Drain()
	node.AwaitReady()

	do(t, tab, chromedp.EmulateViewport(1200, 900), scheme("light"), chromedp.Navigate(server.URL), says("#link", "Live"), says("#state", "RUNNING"),
		says(`[data-name="thread-1"] .place`, "RUNNING"), chromedp.Focus("#ask-key"), chromedp.SendKeys("#ask-key", "bo"))

	// A thread dies. The page shows it, and leaves who types in peace.
	node.Faults.At(fault.ThreadPoll).Thread("thread-1").Error(errors.New("broken wheel"))
	told := make(chan time.Time, 1)
	go func() {
		for e := range node.Events(t.Context()) {
			if strings.HasSuffix(e.Path, "/thread-1") && e.Epoch == 2 {
				told <- time.Now()
				return
			}
		}
	}()
	millracetest.Produce(cluster, orders, millracetest.R("ann", "book"), millracetest.R("bob", "book"))
	do(t, tab, says(`[data-name="thread-1"] .place`, "incarnation 2"))
	t.Logf("the page showed the change %s after it was published", time.Since(<-told).Round(time.Millisecond))
	do(t, tab, says(`[data-name="thread-1"] .place`, "REBALANCING"), says(`[data-name="thread-1"] .place`, "broken wheel"), says("#news", "thread-1"),
		says("#transitions", "incarnation 2"), says("#state", "REBALANCING"), holds(`document.activeElement.id === "ask-key" && document.activeElement.value === "bo"`))

	do(t, tab, chromedp.SendKeys("#ask-key", "ok"))
	if _, err := chromedp.RunResponse(tab, chromedp.Click("#ask button")); err != nil {
		t.Fatal(err)
	}
	do(t, tab, says("#answer", "Status"), says("#link", "Live"))
	picture(t, tab, "page-light")
	do(t, tab, scheme("dark"))
	picture(t, tab, "page-dark")
	do(t, tab, chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile), says("#link", "Live"), holds(`document.documentElement.scrollWidth <= 360`))
	picture(t, tab, "page-phone")

	// Without script it is a picture, with a way to the next one.
	do(t, tab, scripts(false), chromedp.Navigate(server.URL+"/?store=orders-by-product&ask=count"))
	link, answer := textOf(t, tab, "#link"), textOf(t, tab, "#answer")
	if !strings.Contains(link, "A still picture of") || !strings.Contains(answer, "Status") {
		t.Errorf("%q %q", link, answer)
	}
	do(t, tab, scripts(true), chromedp.Navigate(server.URL), says("#link", "Live"))

	node.Stop()
	do(t, tab, says("#link", "The node has ended (NOT_RUNNING)"), says("#state", "NOT_RUNNING"))
	server.CloseClientConnections()
	server.Close()
	do(t, tab, says("#link", "The node is not reachable"), holds(`document.querySelector("#link.broken") !== null`))
	picture(t, tab, "page-unreachable")
}
