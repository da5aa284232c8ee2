package work

import (
	"encoding/binary"
	"strings"
	"testing"
)

// The first doubles of Java's new Random(42), which are in its specification's reach: 0.7275636800328681 and
// 0.6832234717598454.
func TestWordsDrawAsJavaDoes(t *testing.T) {
	r := newRandom()
	for _, want := range []float64{0.7275636800328681, 0.6832234717598454} {
		if got := r.float(); got != want {
			t.Errorf("drew %v, want %v", got, want)
		}
	}
}

func TestKeysFollowZipf(t *testing.T) {
	counts := map[string]int{}
	keyed.Messages(20_000, func(m Message) error { counts[string(m.Key)]++; return nil })
	if counts["word0"] < 10*counts["word99"] {
		t.Errorf("word0 %d, word99 %d: that is not Zipf's law", counts["word0"], counts["word99"])
	}
}

// output is what a correct system writes for a job, for jobs that count once per record.
func output(t *testing.T, j Job, n int, each func(key, value []byte)) {
	counts := map[string]uint64{}
	emit := func(key string) {
		counts[key]++
		each([]byte(key), binary.BigEndian.AppendUint64(nil, counts[key]))
	}
	err := j.Input.Messages(n, func(m Message) error {
		switch j.Does {
		case "pass":
			each(m.Key, []byte(strings.ToUpper(string(m.Value))))
		case "map":
			if strings.ContainsRune("02468", rune(m.Key[len(m.Key)-1])) {
				each(m.Key, m.Value[:10])
			}
		case "words":
			for _, word := range strings.Fields(string(m.Value)) {
				emit(word)
			}
		case "windows":
			start := m.Timestamp / 60_000 * 60_000
			emit(string(binary.BigEndian.AppendUint64(m.Key[:len(m.Key):len(m.Key)], uint64(start))))
		default:
			emit(string(m.Key))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Every job's expected answer is what another implementation of the job gives. No output at all is noticed, and for jobs
// without a store one record less.
func TestAnswersOfEveryJob(t *testing.T) {
	for _, j := range append(Jobs, Scale()...) {
		const n = 2_000
		j = j.Smaller()
		want, err := j.Expected(n)
		if err != nil {
			t.Fatal(j.Name, err)
		}
		full, short := j.Empty(n), j.Empty(n)
		records := 0
		output(t, j, n, func(key, value []byte) {
			if records++; records > 1 {
				short.Take(key, value)
			}
			if err := full.Take(key, value); err != nil {
				t.Fatal(j.Name, err)
			}
		})
		if err := full.Compare(want); err != nil {
			t.Errorf("%s: %v", j.Name, err)
		}
		if err := short.Compare(want); !j.Stateful() && err == nil {
			t.Errorf("%s: a record is missing and nobody says so", j.Name)
		}
		if err := j.Empty(n).Compare(want); err == nil {
			t.Errorf("%s: the output is empty and nobody says so", j.Name)
		}
	}
}

func TestAnswersNameWhatIsWrong(t *testing.T) {
	j := Job{Does: "count", Input: Input{Partitions: 1, Draw: InTurn, Rounds: 2}}
	want, err := j.Expected(4) // word0 and word1, twice each
	if err != nil {
		t.Fatal(err)
	}
	two := binary.BigEndian.AppendUint64(nil, 2)
	for _, test := range []struct {
		keys  []string
		value []byte
		says  string
	}{
		{[]string{"word0", "word1"}, two, ""},
		{[]string{"word0"}, two, `"word1" is 0 and should be 2`},
		{[]string{"word0", "word1", "word2"}, two, `"word2" is not in the input`},
		{[]string{"beast"}, two, `"beast" is not in the input`},
		{[]string{"word0"}, []byte("2"), "has 1 bytes, not 8"},
	} {
		got := j.Empty(4)
		for _, key := range test.keys {
			if err = got.Take([]byte(key), test.value); err != nil {
				break
			}
		}
		if err == nil {
			err = got.Compare(want)
		}
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v: %v, want %q", test.keys, err, test.says)
		}
	}
	pass := Job{Does: "pass", Input: Input{Partitions: 1, Draw: InTurn, Rounds: 1, ValueBytes: 3}}
	want, _ = pass.Expected(1)
	got := pass.Empty(1)
	got.Take([]byte("word0"), []byte("xxx"))
	if err := got.Compare(want); err == nil || !strings.Contains(err.Error(), "values are wrong") {
		t.Errorf("small letters came through: %v", err)
	}
}

func TestVariants(t *testing.T) {
	both, modes := []string{"at_least_once", "exactly_once"}, []string{"on", "off"}
	for name, want := range map[string]int{"pass": 2, "count": 4, "gets": 1, "keys-10000": 1} {
		jobs, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := jobs[0].Variants(both, modes); err != nil || len(v) != want {
			t.Errorf("%s has %d variants, want %d: %v", name, len(v), want, err)
		}
	}
	if _, err := Find("nonsense"); err == nil {
		t.Error("a job that is not there was found")
	}
	if _, err := Jobs[0].Variants([]string{"never"}, modes); err == nil {
		t.Error("a guarantee that is not there was taken")
	}
	if _, err := Jobs[0].Variants(both, []string{"maybe"}); err == nil {
		t.Error("caching that is not there was taken")
	}
}

// Every byte, at every place within eight: letters become capitals, the rest stays.
func TestUpperChangesLettersOnly(t *testing.T) {
	for place := range 20 {
		for c := range 256 {
			b, want := []byte("zaZA@[`{09 xyz \x00\x7f\x80\xff!"), []byte("ZAZA@[`{09 XYZ \x00\x7f\x80\xff!")
			b[place], want[place] = byte(c), byte(c)
			if 'a' <= c && c <= 'z' {
				want[place] -= 'a' - 'A'
			}
			if got := Upper(b); string(got) != string(want) {
				t.Fatalf("byte %#x at %d: %q, want %q", c, place, got, want)
			}
		}
	}
}
