package router_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/router"
)

// What goes over the wire holds nothing of the host: no path, no address list, no text of an error, whatever was published.
func TestNothingOfTheHostLeaves(t *testing.T) {
	secret := fmt.Errorf("dial 10.9.8.7:9092, 10.9.8.8:9092: %w", &fs.PathError{Op: "open", Path: "/var/lib/secret/0_0", Err: fs.ErrPermission})
	r := newRig(t, router.Options{Endpoint: "here:1"})
	r.running(answers)
	kinds := map[querypb.Kind]bool{}
	look := func() {
		t.Helper()
		for _, q := range []query.Question{&querypb.Open{}, &querypb.Get{Key: []byte("k")}, &querypb.Get{}, &querypb.GetMany{}, &querypb.Range{}, &querypb.Count{},
			&querypb.Get{Key: []byte("k"), About: &querypb.About{Epoch: 7}}, &querypb.ListStores{}, &querypb.Locate{}, &querypb.ListRestores{}} {
			v, err := r.system.Root.RequestFuture(r.PID("counts", 0), q, patience).Result()
			if err != nil {
				t.Fatal(err)
			}
			reply := v.(*querypb.Reply)
			b, err := proto.Marshal(reply)
			if err != nil {
				t.Fatal(err)
			}
			text := string(b)
			if err := query.FromReply(reply); err != nil {
				text += err.Error()
				kinds[reply.GetFailure().GetKind()] = true
			}
			for _, leak := range []string{"secret", "10.9.8", "permission", "dial"} {
				if strings.Contains(text, leak) {
					t.Errorf("%T: %q leaves: %q", q, leak, text)
				}
			}
		}
	}
	r.Failed("counts", 0, secret)
	look()
	r.Thread(lifecycle.ThreadStatus{Name: "thread-1", State: lifecycle.ThreadRebalancing, Cause: secret, Retry: time.Now().Add(time.Second)})
	look()
	r.Thread(lifecycle.ThreadStatus{Name: "thread-1", State: lifecycle.ThreadError, Cause: secret})
	look()
	r.Node(lifecycle.NodePendingError)
	r.Node(lifecycle.NodeError)
	look()
	if !kinds[querypb.Kind_KIND_STORE_FAILURE] || !kinds[querypb.Kind_KIND_STREAM_THREAD_REBALANCING] || !kinds[querypb.Kind_KIND_STREAM_THREAD_NOT_RUNNING] {
		t.Errorf("only %v were looked at", kinds)
	}
}

// A failed engine under a thread that runs is rebuilt by the next incarnation: ask again here.
func TestFailedEngineIsRetryable(t *testing.T) {
	r := newRig(t, router.Options{})
	r.running(answers)
	r.Failed("counts", 0, errors.New("disk"))
	if f := r.fails(about(0), query.ErrStoreFailure); !errors.Is(f, query.ErrRetryable) || f.Retry != query.Here || f.RetryAfter <= 0 {
		t.Errorf("%+v", f)
	}
}
