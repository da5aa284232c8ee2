package record

import "testing"

// Vectors of Apache Kafka's own Utils.murmur2 test.
func TestMurmur2EqualsKafka(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(Murmur2([]byte(key))); got != want {
			t.Errorf("Murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestWithValueKeepsTheRest(t *testing.T) {
	r := Record[string, int]{Key: "k", NoKey: true, NoValue: true, Timestamp: 7, Headers: Headers{{Key: "h"}}}
	w := WithValue(r, "v")
	if w.NoValue || !w.NoKey || w.Timestamp != 7 || len(w.Headers) != 1 || w.Value != "v" {
		t.Fatalf("%+v", w)
	}
	if k := WithKey(r, 3); k.NoKey || !k.NoValue || k.Key != 3 {
		t.Fatalf("%+v", k)
	}
}

func TestHeadersLastWins(t *testing.T) {
	h := Headers{{"a", []byte("1")}, {"b", nil}, {"a", []byte("2")}}
	if v, ok := h.Last("a"); !ok || string(v) != "2" {
		t.Fatalf("%q %v", v, ok)
	}
	if v, ok := h.Last("b"); !ok || v != nil {
		t.Fatalf("a null header value is present: %q %v", v, ok)
	}
	if _, ok := h.Last("c"); ok {
		t.Fatal("c is absent")
	}
}

func TestTaskIDsHaveOneName(t *testing.T) {
	for name, want := range map[string]TaskID{"0_0": {}, "12_345": {12, 345}, "0_2147483647": {0, 2147483647}} {
		if id, ok := ParseTaskID(name); !ok || id != want || id.String() != name {
			t.Error(name, id, ok)
		}
	}
	for _, name := range []string{"", "_", "0", "0_", "_0", "00_1", "0_+1", "-1_0", "0_-0", "0_1_2", " 0_1", "0_2147483648", "a_1"} {
		if id, ok := ParseTaskID(name); ok {
			t.Error(name, "is", id)
		}
	}
}
