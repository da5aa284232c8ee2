package query_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// The advice of the design's table.
var advice = map[query.Kind]query.RetryClass{
	query.UnknownStateStore: query.Never, query.StateStoreTypeMismatch: query.Never, query.InvalidQuery: query.Never,
	query.IteratorClosed: query.Never, query.PartitionNotInStore: query.Never,
	query.StreamThreadNotRunning: query.Elsewhere, query.StateStoreNotAvailable: query.Elsewhere,
	query.StreamThreadNotStarted: query.Here, query.InvalidStateStorePartition: query.Rediscover,
	query.StateStoreMigrated: query.Rediscover, query.StreamThreadRebalancing: query.Here,
	query.MetadataUnavailable: query.Here, query.StoreFailure: query.Elsewhere, query.Overloaded: query.Here,
	query.DeadlineExceeded: query.Here,
}

func TestEveryKindIsItsSentinelItsCategoryAndTheRoot(t *testing.T) {
	if len(advice) != len(query.Kinds()) {
		t.Fatalf("%d kinds, %d expected", len(query.Kinds()), len(advice))
	}
	for _, k := range query.Kinds() {
		err := fmt.Errorf("asking: %w", query.New(k, "counts", 2))
		for _, other := range query.Kinds() {
			if got := errors.Is(err, other.Sentinel()); got != (other == k) {
				t.Errorf("%v is %v: %v", k, other.Sentinel(), got)
			}
		}
		fatal := advice[k] == query.Never || advice[k] == query.Elsewhere
		if errors.Is(err, query.ErrFatal) != fatal || errors.Is(err, query.ErrRetryable) == fatal || !errors.Is(err, query.ErrInvalidStateStore) {
			t.Errorf("%v: wrong category", k)
		}
		var f *query.Failure
		if !errors.As(err, &f) || f.Retry != advice[k] {
			t.Errorf("%v advises %v, want %v", k, f.Retry, advice[k])
		}
		if !strings.Contains(err.Error(), k.String()) || !strings.Contains(err.Error(), `"counts" partition 2`) {
			t.Errorf("the text does not name the kind and the store: %v", err)
		}
		if parsed, ok := query.ParseKind(k.String()); !ok || parsed != k {
			t.Errorf("%v is not parsed", k)
		}
		if name := "KIND_" + upper(k.String()); querypb.Kind(k).String() != name {
			t.Errorf("%v is %v on the wire, want %v", k, querypb.Kind(k), name)
		}
	}
}

func upper(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}

// A store that is being rebuilt says Here, and is retryable although its kind's default is fatal.
func TestCategoryFollowsTheAdvice(t *testing.T) {
	f := query.New(query.StoreFailure, "counts", 0)
	f.Retry = query.Here
	if !errors.Is(f, query.ErrRetryable) || errors.Is(f, query.ErrFatal) {
		t.Fatal("a rebuilt store must be retryable")
	}
}

func travel(t *testing.T, f *query.Failure) *query.Failure {
	t.Helper()
	b, err := proto.Marshal(query.ToReply(f))
	if err != nil {
		t.Fatal(err)
	}
	r := &querypb.Reply{}
	if err := proto.Unmarshal(b, r); err != nil {
		t.Fatal(err)
	}
	var got *query.Failure
	if !errors.As(query.FromReply(r), &got) {
		t.Fatalf("no failure in %v", r)
	}
	return got
}

func TestFailureSurvivesTheWire(t *testing.T) {
	for _, k := range query.Kinds() {
		for _, cause := range []error{nil, query.ErrStateStoreClosed, query.ErrEmptyStateStore} {
			f := query.New(k, "counts", 3)
			f.NodeState, f.ThreadState, f.Epoch, f.RetryAfter, f.Owner = "RUNNING", "REBALANCING", 9, 250*time.Millisecond, "10.0.0.7:7070"
			f.Progress = &lifecycle.Progress{Restored: 5, Remaining: 7, Started: time.UnixMilli(1700000000000)}
			f.LastKey, f.Detail, f.Cause, f.Left = []byte("the"), "why", cause, 3*time.Second
			f.Reached = record.Position{{Topic: "lines", Partition: 3}: 17}
			if diff := cmp.Diff(*f, *travel(t, f), cmpopts.EquateErrors()); diff != "" {
				t.Errorf("%v:\n%s", k, diff)
			}
		}
	}
	if f := travel(t, query.New(query.UnknownStateStore, "x", query.NoPartition)); f.Partition != query.NoPartition {
		t.Errorf("no partition became %d", f.Partition)
	}
	empty := query.New(query.StateStoreMigrated, "x", 0)
	empty.LastKey = []byte{}
	if f := travel(t, empty); f.LastKey == nil {
		t.Error("an empty last key became an absent one")
	}
}

func TestCauseTextDoesNotLeave(t *testing.T) {
	f := query.New(query.StoreFailure, "counts", 0)
	f.Cause = fmt.Errorf("%w: %w", query.ErrStateStoreClosed, &fs.PathError{Op: "open", Path: "/var/lib/secret/0_0", Err: fs.ErrPermission})
	if !errors.Is(f, fs.ErrPermission) {
		t.Fatal("the cause is lost here")
	}
	b, err := proto.Marshal(query.ToProto(f))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "secret") || strings.Contains(f.Error(), "secret") {
		t.Fatalf("a path leaves the process: %q, %v", b, f)
	}
	if got := travel(t, f); !errors.Is(got, query.ErrStateStoreClosed) || errors.Is(got, fs.ErrPermission) {
		t.Fatalf("cause after the wire: %v", got.Cause)
	}
}

// A kind that a newer node sends still says what to do.
func TestUnknownKindKeepsItsAdvice(t *testing.T) {
	got := query.FromProto(&querypb.Failure{Kind: 99, Retry: querypb.Retry_RETRY_HERE})
	if !errors.Is(got, query.ErrRetryable) || got.Kind.String() != "Kind(99)" || got.Error() == "" {
		t.Fatalf("%v", got)
	}
}

func TestEmptyReplyIsAFailure(t *testing.T) {
	for _, r := range []*querypb.Reply{nil, {}} {
		if err := query.FromReply(r); !errors.Is(err, query.ErrStoreFailure) {
			t.Errorf("%v: %v", r, err)
		}
	}
}
