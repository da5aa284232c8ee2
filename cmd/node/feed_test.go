package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/kafka/embedded"
)

// Two processes that start at the same instant with an empty topic: one of them feeds it. The broker takes no line before
// the other one has seen that the topic is still empty and would feed it too.
func TestBinaryTwoProcessesFeedOnce(t *testing.T) {
	c := embed(t)
	addrs, app := strings.Join(c.Addrs(), ","), "pair"
	release := holdProduce(c, linesTopic(app))
	both := [2]*process{}
	said := make(chan *process, 2)
	for i := range both {
		p := begin(t, "demo", "dev", "--brokers", addrs, "--app", app, "--state-dir", t.TempDir())
		both[i] = p
		go func() {
			if p.says(p.out, "Another process feeds topic "+linesTopic(app)) {
				said <- p
			}
		}()
	}
	select {
	case <-said:
	case <-time.After(patience):
		t.Fatal("neither waits for the other")
	}
	release()
	for _, p := range both {
		p.await(p.out, "Ctrl-C ends it.")
	}
	if lines, want := contents(t, addrs, linesTopic(app)), strings.Count(demoText, "\n"); len(lines) != want {
		t.Errorf("%d lines were fed, want %d", len(lines), want)
	}
	for _, p := range both {
		p.end()
	}
}

// A process that is killed while it feeds is followed by another one after the session time-out, and what the first one
// wrote is not written again.
func TestBinaryFeedOfAKilledProcessIsTakenOver(t *testing.T) {
	if testing.Short() {
		t.Skip("the input of short tests is fed at once")
	}
	c := embed(t)
	addrs, app, input := strings.Join(c.Addrs(), ","), "dead", t.TempDir()
	truth := reference(tree(t, input))
	release := holdProduce(c, linesTopic(app))
	args := []string{"dev", "--once", "--brokers", addrs, "--app", app, "--session-timeout", "6s", "--input", input, "--state-dir"}
	first := begin(t, "demo", append(args, t.TempDir())...)
	first.await(first.err, "fed 63%")
	first.signal(os.Kill)
	first.result()
	second := begin(t, "demo", append(args, t.TempDir())...)
	second.await(second.err, "Another process feeds topic")
	release()
	if got := second.result(); got.code != 0 || got.out != truth {
		t.Fatalf("code %d: %s\n%s", got.code, got.err, cmp.Diff(truth, got.out))
	}
}

// holdProduce has the brokers cut connections that write to topic, until release is called.
func holdProduce(c *embedded.Cluster, topic string) (release func()) {
	var released atomic.Bool
	c.Kfake().ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		held := slices.ContainsFunc(r.(*kmsg.ProduceRequest).Topics, func(t kmsg.ProduceRequestTopic) bool { return t.Topic == topic })
		if !held || released.Load() {
			return nil, nil, false
		}
		return nil, errors.New("held"), true
	})
	return func() { released.Store(true) }
}
