package millrace_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
)

// Every mistake is named, with what would be right, and no secret is repeated.
func TestOptionsThatCannotWork(t *testing.T) {
	for _, c := range []struct {
		option millrace.Option
		names  string
	}{
		{millrace.WithSASL("PLAIN", "user", ""), "WithSASL"},
		{millrace.WithSASL("", "user", "secret"), "SCRAM-SHA-256"},
		{millrace.WithSASL("GSSAPI", "user", "secret"), "SCRAM-SHA-256"},
		{millrace.WithGuarantee(7), "ExactlyOnce"},
		{millrace.WithThreads(0), "WithThreads"},
		{millrace.WithBrokers("nowhere"), "host:port"},
		{millrace.WithCompression("brotli"), "zstd"},
		{millrace.WithLinger(0), "20ms"}, {millrace.WithLinger(2 * time.Second), "up to 1s"},
		{millrace.WithFetchMaxWait(-1), "100ms"}, {millrace.WithFetchMaxWait(time.Minute), "up to 10s"},
		{millrace.WithFetchPartitionBytes(16<<10 - 1), "16384"}, {millrace.WithFetchPartitionBytes(4<<20 + 1), "4194304"},
		{millrace.WithClientID("a b"), "a-z A-Z"}, {millrace.WithRequestTimeout(time.Millisecond), "1s"}, {millrace.WithRequestTimeout(time.Hour), "5m0s"},
		{millrace.WithReplication(-3), "WithReplication"},
		{millrace.WithReplication(0), "WithReplication"},
		{millrace.WithMetadataRefresh(-1), "WithMetadataRefresh"},
		{millrace.WithStoreCache(-5), "WithStoreCache"},
		{millrace.WithEndpoint("foo"), "WithEndpoint"},
		{millrace.WithSessionTimeout(0), "WithSessionTimeout"},
		{nil, "options"},
	} {
		_, err := millrace.New("app", wordCount(t), c.option)
		var bad *millrace.OptionError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.names) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v does not name %s", err, c.names)
		}
	}
	if _, err := millrace.New("app", wordCount(t), millrace.WithLogger(nil)); err != nil {
		t.Error(err)
	}
	if _, err := millrace.ParseGuarantee("at_most_once"); err == nil || !strings.Contains(err.Error(), "exactly_once, at_least_once") {
		t.Error(err)
	}
}
