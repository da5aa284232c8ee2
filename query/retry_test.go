package query_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/millrace-io/millrace/query"
)

func failed(k query.Kind) *query.Failure {
	f := query.New(k, "s", 0)
	f.RetryAfter = 0
	return f
}

// Retry does what the class of each failure says, and nothing more.
func TestRetryDoesWhatTheFailureAdvises(t *testing.T) {
	again, moved, gone, never := failed(query.Overloaded), failed(query.StateStoreMigrated), failed(query.StateStoreNotAvailable), failed(query.UnknownStateStore)
	for _, c := range []struct {
		name   string
		policy query.Policy
		fails  []error
		calls  int
		want   error
	}{
		{"succeeds at the third", query.Policy{}, []error{again, again}, 3, nil},
		{"rediscover asks again", query.Policy{}, []error{moved, moved}, 3, nil},
		{"never ends it", query.Policy{}, []error{again, never, again}, 2, never},
		{"elsewhere ends it", query.Policy{}, []error{gone}, 1, gone},
		{"elsewhere goes on where f asks elsewhere", query.Policy{Elsewhere: true}, []error{gone}, 2, nil},
		{"attempts end it", query.Policy{Attempts: 2}, []error{again, again, again}, 2, again},
		{"another error ends it", query.Policy{}, []error{fs.ErrClosed}, 1, fs.ErrClosed},
	} {
		calls := 0
		c.policy.Wait = time.Microsecond
		got, err := query.RetryGet(t.Context(), c.policy, func(context.Context) (int, error) {
			if calls++; calls <= len(c.fails) {
				return 0, c.fails[calls-1]
			}
			return calls, nil
		})
		if calls != c.calls || !errors.Is(err, c.want) || (c.want == nil) != (err == nil) || (err == nil) != (got == calls) {
			t.Errorf("%s: %d calls, %v", c.name, calls, err)
		}
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	long := query.New(query.Overloaded, "s", 0)
	long.RetryAfter = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	if err := query.Retry(ctx, query.Policy{}, func(context.Context) error { cancel(); return long }); !errors.Is(err, query.ErrOverloaded) {
		t.Errorf("after the context's end: %v", err)
	}
	// A wait that would outlast the deadline is not begun.
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := query.Retry(ctx, query.Policy{}, func(context.Context) error { return long }); !errors.Is(err, query.ErrOverloaded) || ctx.Err() != nil {
		t.Errorf("%v, and the context: %v", err, ctx.Err())
	}
}

func TestRetryWaitsAsLongAsTheFailureSays(t *testing.T) {
	f := query.New(query.StreamThreadRebalancing, "s", 0)
	f.RetryAfter = 50 * time.Millisecond
	begin, calls := time.Now(), 0
	_ = query.Retry(t.Context(), query.Policy{Attempts: 2, Wait: time.Nanosecond}, func(context.Context) error { calls++; return f })
	if took := time.Since(begin); calls != 2 || took < f.RetryAfter {
		t.Errorf("%d calls in %v", calls, took)
	}
}
