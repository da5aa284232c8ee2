package kafka

import (
	"fmt"
	"testing"

	"github.com/millrace-io/millrace/record"
)

// Null and empty stay apart in the first record of a batch too, when nothing has been copied yet (case H12).
func TestBatchKeepsNullAndEmptyApart(t *testing.T) {
	for _, key := range [][]byte{nil, {}, []byte("k")} {
		for _, value := range [][]byte{nil, {}, []byte("v")} {
			b := &batch{}
			b.add(&record.Raw{Key: key, Value: value, Headers: record.Headers{{Key: "h", Value: value}}}, 0)
			for _, r := range b.all() {
				got := fmt.Sprintf("%#v %#v %#v", r.Key, r.Value, r.Headers[0].Value)
				if want := fmt.Sprintf("%#v %#v %#v", key, value, value); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		}
	}
}
