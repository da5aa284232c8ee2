package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
)

const partitions = 4

// pair is a record with a key; a nil value is null.
type pair struct {
	key   string
	value []byte
}

// produce writes pairs to where their keys belong, and waits until they are there.
func produce(t *testing.T, addrs, topic string, pairs ...pair) {
	t.Helper()
	flushed := make(chan broker.Flushed, 1)
	p, err := kafka.NewProducer(kafka.ProducerConfig{Config: kafka.Config{Brokers: strings.Split(addrs, ",")}}, func(e broker.Event) {
		if f, ok := e.(broker.Flushed); ok {
			flushed <- f
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	for i, r := range pairs {
		to := record.TopicPartition{Topic: topic, Partition: record.Partition([]byte(r.key), partitions)}
		if err := p.Append(to, &record.Raw{Key: []byte(r.key), Value: r.value, Timestamp: int64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	p.Flush(1)
	if f := <-flushed; f.Err != nil || len(f.Refused) > 0 {
		t.Fatal(f.Err, f.Refused)
	}
}

// contents reads a topic whole, as key=value pairs in the order of each partition; "null" is a value that is none.
func contents(t *testing.T, addrs, topic string) (out []string) {
	t.Helper()
	reader, err := kafka.NewChangelog(kafka.Config{Brokers: strings.Split(addrs, ",")})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for i := range int32(partitions) {
		tp := record.TopicPartition{Topic: topic, Partition: i}
		ends, err := reader.Ends(t.Context(), []record.TopicPartition{tp})
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.Read(t.Context(), tp, ends[tp].Start, ends[tp].HighWatermark, false, func(b broker.Batch) error {
			for _, r := range b.Records {
				value := fmt.Sprintf("%q", r.Value)
				if r.Value == nil {
					value = "null"
				}
				out = append(out, string(r.Key)+"="+value)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func create(t *testing.T, addrs string, configs map[string]string, names ...string) {
	t.Helper()
	var specs []kafka.TopicSpec
	for _, name := range names {
		specs = append(specs, kafka.TopicSpec{Name: name, Partitions: partitions, Replication: -1, Configs: configs})
	}
	if err := admin(t, addrs).CreateTopics(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
}

// once counts the input under the application's own id, with its state in dir.
func once(t *testing.T, addrs, app, dir, input string) result {
	t.Helper()
	return run(t, "demo", "dev", "--once", "--brokers", addrs, "--app", app, "--state-dir", dir, "--input", input)
}

// files are those of all tasks under dir whose names match.
func files(t *testing.T, dir, pattern string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if ok, _ := filepath.Match(pattern, filepath.Base(path)); ok && err == nil && !strings.Contains(path, "aside") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// Whatever became of the state's files, the counts are right, and what was done about it is said.
func TestBinaryRebuildsCorruptState(t *testing.T) {
	addrs, input := brokers(t), t.TempDir()
	truth := reference(tree(t, input))
	for name, damage := range map[string]struct {
		pattern string
		do      func(path string, content []byte) error
		// older: what is left is an older state, whole in itself, as after a crash. Its changelog's tail mends it.
		older bool
	}{
		"manifest is garbage": {pattern: "MANIFEST-*", do: func(path string, b []byte) error {
			return os.WriteFile(path, bytes.Repeat([]byte{0xa5}, len(b)), 0o600)
		}},
		"manifest is cut off": {pattern: "MANIFEST-*", older: true, do: func(path string, b []byte) error { return os.Truncate(path, int64(len(b)/2)) }},
		"tables are flipped": {pattern: "*.sst", do: func(path string, b []byte) error {
			for i := range len(b) / 2 {
				b[i] ^= 0xff
			}
			return os.WriteFile(path, b, 0o600)
		}},
		"tables are empty": {pattern: "*.sst", do: func(path string, _ []byte) error { return os.Truncate(path, 0) }},
		"tables are gone":  {pattern: "*.sst", do: func(path string, _ []byte) error { return os.Remove(path) }},
		"no manifest":      {pattern: "marker.manifest.*", older: true, do: func(path string, _ []byte) error { return os.Remove(path) }},
	} {
		t.Run(name, func(t *testing.T) {
			app, dir := "corrupt-"+strings.ReplaceAll(name, " ", "-"), t.TempDir()
			if got := once(t, addrs, app, dir, input); got.code != 0 || got.out != truth {
				t.Fatalf("before: %d %s", got.code, got.err)
			}
			damaged := files(t, dir, damage.pattern)
			if len(damaged) == 0 {
				t.Fatal("there is nothing to damage")
			}
			for _, path := range damaged {
				b, err := os.ReadFile(path)
				if err := errors.Join(err, damage.do(path, b)); err != nil {
					t.Fatal(err)
				}
			}
			got := once(t, addrs, app, dir, input)
			if diff := cmp.Diff(truth, got.out); got.code != 0 || diff != "" {
				t.Fatalf("code %d: %s\n%s", got.code, got.err, diff)
			}
			if !damage.older && !strings.Contains(got.err, "moved aside") || strings.Contains(got.err, "goroutine ") {
				t.Errorf("it is not reported, or with a stack: %s", got.err)
			}
			if got := once(t, addrs, app, dir, input); got.out != truth || strings.Contains(got.err, "moved aside") {
				t.Errorf("after the repair: %d %s", got.code, got.err)
			}
		})
	}
}

// A changelog that was deleted and made anew may be longer than the stored offset: the offset alone would find nothing
// wrong, and the old state would be taken for the new topic's.
func TestH9BinaryRebuildsFromARecreatedChangelog(t *testing.T) {
	addrs, dir, input := brokers(t), t.TempDir(), filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(input, []byte("old older oldest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := once(t, addrs, "recreated", dir, input); got.code != 0 || got.out != "old\t1\nolder\t1\noldest\t1\n" {
		t.Fatalf("%+v", got)
	}
	changelog := "recreated-counts-changelog"
	if err := admin(t, addrs).DeleteTopics(t.Context(), changelog); err != nil {
		t.Fatal(err)
	}
	create(t, addrs, map[string]string{"cleanup.policy": "compact"}, changelog)
	var pairs []pair
	var want strings.Builder
	for i := range 100 {
		word := string([]byte{'w', 'a' + byte(i/10), 'a' + byte(i%10)})
		pairs = append(pairs, pair{word, binary.BigEndian.AppendUint64(nil, uint64(i+1))})
		fmt.Fprintf(&want, "%s\t%d\n", word, i+1)
	}
	produce(t, addrs, changelog, pairs...)
	got := once(t, addrs, "recreated", dir, input)
	if diff := cmp.Diff(want.String(), got.out); got.code != 0 || diff != "" || !strings.Contains(got.err, "moved aside") {
		t.Fatalf("code %d: %s\n%s", got.code, got.err, diff)
	}
}

// variantNode is a variant that runs.
type variantNode struct {
	*process
	url string
}

func beginVariant(t *testing.T, name, addrs, app, dir string) *variantNode {
	t.Helper()
	p := begin(t, name, "run", "--brokers", addrs, "--app", app, "--state-dir", dir)
	return &variantNode{p, p.base()}
}

// ask gives the answer for a key of a store.
func (n *variantNode) ask(store, key string) (status int, body string) {
	n.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	r, err := client.Get(n.url + "/stores/" + store + "/keys/" + key)
	if err != nil {
		n.t.Fatal(err)
	}
	defer r.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		n.t.Fatal(err)
	}
	return r.StatusCode, b.String()
}

// holds waits until the store has the value: what was produced is processed a moment later. want "" is an absent key.
func (n *variantNode) holds(store, key, want string, found bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		status, body := n.ask(store, key)
		var answer struct {
			Found bool
			Value *string
		}
		err := json.Unmarshal([]byte(body), &answer)
		if err == nil && found == answer.Found && (status == http.StatusOK) == found && (!found || answer.Value != nil && *answer.Value == want) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			n.t.Fatalf("%s of %s: %d %s, want %q, found %t", key, store, status, body, want, found)
		}
	}
}

// A store that is added, removed or renamed never shows another store's bytes, and those that stay stay right.
func TestBinaryStoresOfAnApplicationChange(t *testing.T) {
	addrs, dir, app := brokers(t), t.TempDir(), "grown"
	create(t, addrs, nil, events(app).Name())
	feed := func(value string) { produce(t, addrs, events(app).Name(), pair{"k", []byte(value)}) }

	n := beginVariant(t, "counts", addrs, app, dir)
	feed("first")
	n.holds("counts", "k", "1", true)
	n.end()

	n = beginVariant(t, "counts,latest:text", addrs, app, dir) // added
	n.holds("counts", "k", "1", true)
	n.holds("latest", "k", "", false)
	feed("second")
	n.holds("counts", "k", "2", true)
	n.holds("latest", "k", "second", true)
	n.end()

	n = beginVariant(t, "latest:text", addrs, app, dir) // removed
	n.holds("latest", "k", "second", true)
	if status, body := n.ask("counts", "k"); status != http.StatusNotFound || !strings.Contains(body, "UnknownStateStore") {
		t.Errorf("the removed store answers %d %s", status, body)
	}
	feed("third")
	n.holds("latest", "k", "third", true)
	n.end()

	n = beginVariant(t, "newest:text", addrs, app, dir) // renamed: another store with another changelog
	n.holds("newest", "k", "", false)
	feed("fourth")
	n.holds("newest", "k", "fourth", true)
	n.end()

	n = beginVariant(t, "latest,counts", addrs, app, dir) // back, one of them as another kind of value
	n.holds("counts", "k", "2", true)
	n.end()
}

// H12: null deletes, empty stays, absent is no failure: from a changelog, through the store, over HTTP, and back.
func TestH12BinaryKeepsNullEmptyAndAbsentApart(t *testing.T) {
	addrs, dir, app := brokers(t), t.TempDir(), "nulls"
	create(t, addrs, nil, events(app).Name())
	changelog := app + "-latest-changelog"
	create(t, addrs, map[string]string{"cleanup.policy": "compact"}, changelog)
	produce(t, addrs, changelog, pair{"a", []byte("1")}, pair{"b", []byte("2")}, pair{"a", nil}, pair{"b", []byte{}}, pair{"c", nil})

	n := beginVariant(t, "latest:text", addrs, app, dir)
	n.holds("latest", "a", "", false)
	n.holds("latest", "b", "", true)
	n.holds("latest", "c", "", false)
	n.holds("latest", "", "", false) // the empty key is a key, and absent
	produce(t, addrs, events(app).Name(), pair{"b", []byte{}}, pair{"d", []byte("x")}, pair{"d", nil}, pair{"e", nil}, pair{"", []byte("empty key")})
	n.holds("latest", "", "empty key", true)
	n.holds("latest", "d", "", false)
	n.end()

	for _, state := range []string{dir, t.TempDir()} { // with the local state, and from the changelog alone
		n = beginVariant(t, "latest:text", addrs, app, state)
		n.holds("latest", "b", "", true)
		for _, absent := range []string{"a", "c", "d", "e"} {
			n.holds("latest", absent, "", false)
		}
		n.end()
	}
	last := map[string]string{}
	for _, line := range contents(t, addrs, changelog) {
		key, value, _ := strings.Cut(line, "=")
		last[key] = value
	}
	if last["b"] != `""` || last["a"] != "null" || last["c"] != "null" {
		t.Errorf("the changelog ends with %v", last)
	}
	// What came and went within one commit was never there.
	if d, ok := last["d"]; ok && d != "null" {
		t.Errorf("the changelog ends with d=%s", d)
	}
}
