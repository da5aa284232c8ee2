package task

import (
	"fmt"
	"testing"
)

// Whatever was added is found, through all layers; of the rest a few are. The filter says how large it is and will be.
func TestEvicted(t *testing.T) {
	const keys = 200_000
	var e evicted
	for i := range keys {
		before, next := e.bytes, e.next()
		if grown := e.add(hashed(fmt.Appendf(nil, "key-%d", i))); grown != 0 && grown != next || e.bytes != before+grown {
			t.Fatalf("key %d: %d bytes, then %d; next was %d", i, before, e.bytes, next)
		}
	}
	for i := range keys {
		if !e.may(hashed(fmt.Appendf(nil, "key-%d", i))) {
			t.Fatalf("key %d is lost", i)
		}
	}
	wrong := 0
	for i := range keys {
		if e.may(hashed(fmt.Appendf(nil, "other-%d", i))) {
			wrong++
		}
	}
	if wrong == 0 || wrong > keys/20 {
		t.Errorf("of %d other keys %d are said to be there", keys, wrong)
	}
	if most := int64(keys * 5); e.bytes == 0 || e.bytes > most {
		t.Errorf("%d bytes for %d keys", e.bytes, keys)
	}
	t.Logf("%d wrong of %d, %d bytes in %d layers", wrong, keys, e.bytes, len(e.layers))
}
