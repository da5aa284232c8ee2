package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/remote"
)

// A node answers other processes from CREATED to its end, in every way, at one address.
func TestRemoteAsksFromCreatedToTheEnd(t *testing.T) {
	c := cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n, err := millrace.New("app", wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithRemote("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	if pid := n.StorePID("counts", 0); pid.Address != n.RemoteAddress() || pid.Id != "app/query/counts/0" {
		t.Fatal(pid)
	}
	clients := map[string]*remote.Client{}
	for _, scheme := range []string{"", "http://"} {
		client, err := remote.Dial(ctx, []string{scheme + n.RemoteAddress()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		clients[scheme] = client
		if _, _, err := query.Get(ctx, client, counts, "good"); !errors.Is(err, query.ErrStreamThreadNotStarted) {
			t.Errorf("%q: %v in CREATED", scheme, err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.WithoutCancel(ctx)) }()
	feed(t, c, "good good", "bad")
	if err := errors.Join(n.Ready(ctx), n.Drain(ctx)); err != nil {
		t.Fatal(err)
	}
	for scheme, client := range clients {
		if v, found, err := query.Get(ctx, client, counts, "good"); v != 2 || !found || err != nil {
			t.Errorf("%q: %d, %t, %v", scheme, v, found, err)
		}
	}
	other, err := millrace.New("other", wordCount(t), millrace.WithRemote("127.0.0.1:0"), millrace.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	v, err := other.ActorSystem().Root.RequestFuture(n.StorePID("counts", 0), &querypb.Open{}, time.Minute).Result()
	if reply, ok := v.(*querypb.Reply); err != nil || !ok || reply.GetLease() == nil {
		t.Errorf("another node's actor: %v, %v", v, err)
	}
	if answer, err := http.Get("http://" + n.RemoteAddress() + "/readyz"); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", answer, err)
	} else {
		answer.Body.Close()
		http.DefaultClient.CloseIdleConnections()
	}
	if err := errors.Join(other.Shutdown(ctx), n.Shutdown(ctx), <-ended); err != nil {
		t.Error(err)
	}
	for scheme, client := range clients {
		var err error
		await(ctx, t, func() bool {
			_, _, err = query.Get(ctx, client, counts, "good")
			return !errors.Is(err, query.ErrStateStoreNotAvailable) // it has used a connection whose end it had not seen
		}, func() string { return fmt.Sprint(err) })
		if !errors.Is(err, query.ErrStreamThreadNotRunning) {
			t.Errorf("%q: %v after the end", scheme, err)
		}
	}
	if len(n.RemoteRefusals()) == 0 || n.RemoteRefusals()["system"] != 0 {
		t.Error(n.RemoteRefusals())
	}
}

func TestRemoteNeedsAGuardOutsideOfLoopback(t *testing.T) {
	for addr, want := range map[string]string{
		"0.0.0.0:0": "mutual TLS", "192.0.2.1:7000": "WithToken", ":7000": "WithToken", "nowhere": "is not host:port", "127.0.0.1:99999": "nothing can listen",
	} {
		_, err := millrace.New("app", wordCount(t), millrace.WithRemote(addr))
		var mistake *millrace.OptionError
		if !errors.As(err, &mistake) || mistake.Option != "WithRemote" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", addr, err)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = millrace.New("app", wordCount(t), millrace.WithRemote(taken.Addr().String()))
	if mistake := (*millrace.OptionError)(nil); !errors.Is(err, syscall.EADDRINUSE) || errors.As(err, &mistake) || !strings.Contains(err.Error(), "give it another address") {
		t.Errorf("an address that somebody has is no mistake of the options: %v", err)
	}
	n, err := millrace.New("app", wordCount(t))
	if err != nil || n.RemoteAddress() != "" || n.RemoteRefusals() != nil {
		t.Error(err)
	}
}
