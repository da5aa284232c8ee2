package task

import "testing"

// FuzzMetadata: whatever text is beside an offset, it is somebody else's, or the same once it is written and read again.
func FuzzMetadata(f *testing.F) {
	for _, text := range []string{"", Metadata{PartitionTime: -1}.String(), Metadata{PartitionTime: 7, TransactionalID: "a|b", Transaction: 1 << 63}.String(), "2|1|1|", "AgAAAXq0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, ok := ParseMetadata(text)
		if !ok {
			if m != (Metadata{PartitionTime: -1}) {
				t.Fatalf("%q is refused, but gives %+v", text, m)
			}
			return
		}
		if again, ok := ParseMetadata(m.String()); !ok || again != m {
			t.Fatalf("%q is %+v, and then %+v", text, m, again)
		}
	})
}
