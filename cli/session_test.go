package cli

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var testCounts = topology.NewKeyValueStore("counts", codec.String, codec.Int64)

func testApp() App {
	return App{Name: "test", Demo: &Demo{Lines: func(app string) string { return app + "-in" }, Counts: testCounts, Text: "a text\n", Key: "text"},
		Topology: func(app string) (*topology.Topology, error) {
			b := topology.NewBuilder()
			in := topology.From(b, topology.NewTopic(app+"-in", codec.String, codec.String))
			topology.To(topology.Count(in, testCounts), topology.NewTopic(app+"-out", codec.String, codec.Int64))
			return b.Build()
		}}
}

// fakeWorld is a cluster in memory and a node that counts nothing.
type fakeWorld struct {
	query.Client // nobody asks it
	fakeLog
	settings nodeSettings
	created  []string
	there    string // what the names of topics end in that are there before
	deleted  []string
	undelete error // what Delete returns
	claims   sharedMarks
	unready  error
	// hang keeps Shutdown from ending before its context does.
	hang    bool
	remote  string
	runErr  error
	ownsAll []bool // answers of OwnsAll, one after the other; the last one stays
	counted []count
	stopped chan struct{}
	leave   *bool
	// drained is called by Drain.
	drained func()
}

func newWorld() *fakeWorld {
	return &fakeWorld{fakeLog: *newLog(4, plenty), stopped: make(chan struct{}), ownsAll: []bool{true}}
}

func (w *fakeWorld) Embed() ([]string, func() error, error) {
	return []string{"127.0.0.1:1"}, func() error { return nil }, nil
}

func (w *fakeWorld) Connect(context.Context, kafka.Config) (cluster, error) { return w, w.unready }

func (w *fakeWorld) Node(_ string, _ *topology.Topology, s nodeSettings) (node, error) {
	w.settings = s
	return fakeNode{w}, nil
}

func (w *fakeWorld) Create(_ context.Context, topics []string, _ int32) ([]string, error) {
	w.created = slices.DeleteFunc(slices.Clone(topics), func(t string) bool { return w.there != "" && strings.HasSuffix(t, w.there) })
	return w.created, nil
}

func (w *fakeWorld) Delete(_ context.Context, topics []string) error {
	w.deleted = topics
	return w.undelete
}

func (w *fakeWorld) Claims(context.Context, kafka.Config, string) (claimLog, error) {
	return &w.claims, nil
}

func (w *fakeWorld) Sink(string) (sink, error) { return w, nil }

func (w *fakeWorld) Tails(context.Context, string) ([]*record.Raw, error) {
	tails := make([]*record.Raw, len(w.partitions))
	for i, p := range w.partitions {
		if len(p) > 0 {
			tails[i] = &p[len(p)-1]
		}
	}
	return tails, nil
}

type fakeNode struct{ *fakeWorld }

func (n fakeNode) Run(context.Context) error {
	if n.runErr == nil {
		<-n.stopped
	}
	return n.runErr
}

func (n fakeNode) Ready(ctx context.Context) error {
	if n.runErr != nil {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (n fakeNode) Shutdown(ctx context.Context, leave bool) error {
	n.fakeWorld.leave = &leave
	if n.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	close(n.stopped)
	return nil
}

func (n fakeNode) Drain(ctx context.Context) error {
	if n.drained != nil {
		n.drained()
		<-ctx.Done()
	}
	return ctx.Err()
}
func (n fakeNode) ProcessID() (string, error) { return "fake", nil }
func (n fakeNode) Owned() []record.TaskID     { return []record.TaskID{{SubTopology: 0, Partition: 3}} }
func (n fakeNode) OwnsAll() bool {
	answer := n.ownsAll[0]
	if len(n.ownsAll) > 1 {
		n.fakeWorld.ownsAll = n.ownsAll[1:]
	}
	return answer
}
func (n fakeNode) Threads() []lifecycle.ThreadStatus {
	return []lifecycle.ThreadStatus{{Name: "thread-1", State: lifecycle.ThreadPendingShutdown}}
}
func (n fakeNode) Handler() http.Handler { return http.NotFoundHandler() }
func (n fakeNode) RemoteAddress() string { return n.remote }
func (n fakeNode) Watch(ctx context.Context) iter.Seq[stateChange] {
	return func(func(stateChange) bool) { <-ctx.Done() }
}
func (n fakeNode) Counts(context.Context, topology.KeyValueStore[string, int64]) iter.Seq2[count, error] {
	return func(yield func(count, error) bool) {
		for _, c := range n.counted {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// seen is a writer that calls found once when the text has been written.
type seen struct {
	bytes.Buffer
	text  string
	found func()
}

func (s *seen) Write(b []byte) (int, error) {
	n, err := s.Buffer.Write(b)
	if s.found != nil && strings.Contains(s.String(), s.text) {
		s.found()
		s.found = nil
	}
	return n, err
}

type outcome struct {
	code     int
	out, err string
}

// seconds is a clock that is a second later whenever it is looked at.
func seconds() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

// runFake runs the command line on w; when is what standard output must hold before the signals are sent.
func runFake(t *testing.T, w *fakeWorld, when string, signals []os.Signal, args ...string) outcome {
	t.Helper()
	c := make(chan os.Signal, len(signals))
	send := func() {
		for _, s := range signals {
			c <- s
		}
	}
	out, errs := &seen{text: when, found: send}, &bytes.Buffer{}
	args = append(args, "--listen", "127.0.0.1:0")
	code := Run(t.Context(), testApp(), Process{Args: args, Environ: func() []string { return nil }, In: strings.NewReader("one\n"), Out: out, Err: errs, Signals: c, world: w, now: seconds()})
	return outcome{code, out.String(), errs.String()}
}

const running = "Ctrl-C ends it."

func TestDevEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		signals []os.Signal
		hang    bool
		args    []string
		code    int
		leave   bool
		err     string
	}{
		{"Ctrl-C", []os.Signal{os.Interrupt}, false, nil, 0, true, ""},
		{"SIGTERM", []os.Signal{syscall.SIGTERM}, false, nil, 0, false, ""},
		{"SIGTERM with --leave", []os.Signal{syscall.SIGTERM}, false, []string{"--leave"}, 0, true, ""},
		{"Ctrl-C twice", []os.Signal{os.Interrupt, os.Interrupt}, true, nil, 1, true, "thread-1 in state PENDING_SHUTDOWN, task 0_3"},
		{"a shutdown that takes too long", []os.Signal{os.Interrupt}, true, []string{"--shutdown-timeout", "1ms"}, 1, true, "gave up waiting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			w := newWorld()
			w.hang = c.hang
			got := runFake(t, w, running, c.signals, append([]string{"dev"}, c.args...)...)
			if got.code != c.code || *w.leave != c.leave || !strings.Contains(got.err, c.err) {
				t.Fatalf("%+v, leave %v", got, *w.leave)
			}
			if len(w.lines(t)) != 1 || strings.Join(w.created, " ") != "test-in test-out" {
				t.Fatalf("%q in %q", w.lines(t), w.created)
			}
			// Stores that may still be open keep their directory, and its name is told.
			_, err := os.Stat(w.settings.stateDir)
			if stays := err == nil; stays != c.hang || strings.Contains(got.err, w.settings.stateDir+" stays") != c.hang {
				t.Fatalf("the state directory: %v; %+v", err, got)
			}
		})
	}
}

func TestDevFeedsOnlyAnEmptyTopic(t *testing.T) {
	w := newWorld()
	w.partitions[2] = []record.Raw{{Value: []byte("somebody else's")}}
	got := runFake(t, w, running, []os.Signal{os.Interrupt}, "dev")
	if got.code != 0 || !strings.Contains(got.out, "nothing is fed") || len(w.partitions[2]) != 1 {
		t.Fatalf("%+v", got)
	}
}

// A count under an id of its own leaves nothing on somebody's cluster, whatever it ends with; a named one does.
func TestOnceDeletesTheTopicsOfAFreshCount(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		owns bool
		want int
	}{
		{"fresh", []string{"--brokers", "h:1"}, true, 3},
		{"fresh, failed", []string{"--brokers", "h:1"}, false, 3},
		{"named", []string{"--brokers", "h:1", "--app", "mine", "--state-dir", t.TempDir()}, true, 0},
		{"embedded", nil, true, 0},
	} {
		w := newWorld()
		w.ownsAll = []bool{c.owns}
		if got := runFake(t, w, "", nil, append([]string{"dev", "--once"}, c.args...)...); len(w.deleted) != c.want || (got.code == 0) != c.owns {
			t.Errorf("%s: %q were deleted; %+v", c.name, w.deleted, got)
		}
		if named := strings.Contains(c.name, "named"); named != (len(w.claims.marks) == 2) {
			t.Errorf("%s: %v", c.name, w.claims.marks)
		}
	}
	w := newWorld()
	w.there = "-in"
	got := runFake(t, w, "", nil, "dev", "--once", "--brokers", "h:1")
	if got.code != 0 || len(w.deleted) != 2 || slices.ContainsFunc(w.deleted, func(topic string) bool { return strings.HasSuffix(topic, "-in") }) {
		t.Errorf("with an input that was there: %q were deleted; %+v", w.deleted, got)
	}
	w = newWorld()
	w.undelete = errors.New("not authorised")
	got = runFake(t, w, "", nil, "dev", "--once", "--brokers", "h:1")
	if got.code != 0 || !strings.Contains(got.err, "stay on the cluster (not authorised)") || !strings.Contains(got.err, w.deleted[0]) {
		t.Errorf("%+v", got)
	}
}

func TestAnOpenStateDirectoryIsToldOfOnce(t *testing.T) {
	dir := t.TempDir()
	for mode, want := range map[os.FileMode]int{0o700: 0, 0o750: 1, 0o755: 1} {
		app := filepath.Join(dir, "mine")
		if err := errors.Join(os.MkdirAll(app, 0o700), os.Chmod(app, mode)); err != nil {
			t.Fatal(err)
		}
		got := runFake(t, newWorld(), running, []os.Signal{os.Interrupt}, "dev", "--app", "mine", "--state-dir", dir)
		info, err := os.Stat(app)
		if err != nil || info.Mode().Perm() != mode {
			t.Fatalf("%v: the mode was changed to %v (%v)", mode, info.Mode(), err)
		}
		if n := strings.Count(got.err, "others on this machine may read the stores"); got.code != 0 || n != want {
			t.Errorf("%v: told %d times: %+v", mode, n, got)
		}
	}
}

func TestOnceSortsByBytes(t *testing.T) {
	w := newWorld()
	w.counted = []count{{"b", 2}, {"ab", 1}, {"a", 1 << 40}}
	if got := runFake(t, w, "", nil, "dev", "--once"); got.code != 0 || got.out != "a\t1099511627776\nab\t1\nb\t2\n" {
		t.Fatalf("%+v", got)
	}
}

func TestOncePrintsNothingWithoutEveryPartition(t *testing.T) {
	for name, owns := range map[string][]bool{"before": {false}, "during": {true, false}} {
		w := newWorld()
		w.counted, w.ownsAll = []count{{"a", 1}}, owns
		got := runFake(t, w, "", nil, "dev", "--once", "--app", "shared", "--brokers", "h:1", "--state-dir", t.TempDir())
		if got.code != 1 || got.out != "" || !strings.Contains(got.err, "other processes of application shared") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What is printed is what a caller can use: an address that is advertised, where there is one.
func TestDevSaysWhereCallersReachIt(t *testing.T) {
	got := runFake(t, newWorld(), running, []os.Signal{os.Interrupt}, "dev", "--listen-advertised", "node-1:8080")
	if got.code != 0 || !strings.Contains(got.out, "curl http://node-1:8080/stores/") || !strings.Contains(got.out, "curl http://node-1:8080/readyz") {
		t.Error(got.code, got.out, got.err)
	}
}

func TestOnceInterruptedIsAFailure(t *testing.T) {
	w, c, errs, out := newWorld(), make(chan os.Signal, 1), &bytes.Buffer{}, &bytes.Buffer{}
	w.drained = func() { c <- os.Interrupt }
	code := Run(t.Context(), testApp(), Process{Args: []string{"dev", "--once"}, Environ: os.Environ, In: strings.NewReader("a"), Out: out, Err: errs, Signals: c, world: w})
	if code != 1 || out.Len() > 0 || !strings.Contains(errs.String(), "interrupted before everything was counted") {
		t.Fatal(code, out, errs)
	}
}

func TestANodeThatFailsEndsTheVerb(t *testing.T) {
	for _, args := range [][]string{{"dev"}, {"run", "--brokers", "h:1", "--state-dir", t.TempDir()}} {
		w := newWorld()
		w.runErr = errors.New("the state directory is in use:\ngive another")
		got := runFake(t, w, "", nil, args...)
		if want := "millrace: the state directory is in use:; give another\n"; got.code != 1 || got.err != want {
			t.Fatalf("%q", got.err)
		}
	}
}

func TestSettingsComeInLayers(t *testing.T) {
	file := t.TempDir() + "/millrace.yaml"
	if err := os.WriteFile(file, []byte("threads: 3\napp: from-file\nsession-timeout: 20s\nbrokers: [a:1, b:2]\nlog-level: error\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	env := []string{"MILLRACE_APP=from-env", "MILLRACE_THREADS=5", "MILLRACE_CONFIG=" + file, "MILLRACE_UNKNOWN=x", "MILLRACE_GUARANTEE=at_least_once", "OTHER=y"}
	code := Run(t.Context(), testApp(), Process{Args: []string{"dev", "--once", "--threads", "7", "--listen", "127.0.0.1:0"}, Environ: func() []string { return env }, In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}, world: w})
	s := w.settings
	if code != 0 || s.Threads != 7 || s.App != "from-env" || s.SessionTimeout.Seconds() != 20 || strings.Join(s.brokers, " ") != "a:1 b:2" || s.LogLevel.String() != "ERROR" || s.Guarantee != "at_least_once" || s.CommitInterval.Milliseconds() != 100 {
		t.Fatalf("%d %+v", code, s)
	}
}

func TestHelpIsNoMistake(t *testing.T) {
	var out, errs bytes.Buffer
	code := Run(t.Context(), testApp(), Process{Args: []string{"dev", "--help"}, Environ: os.Environ, Out: &out, Err: &errs})
	if code != 0 || !strings.Contains(out.String(), "--once") || !strings.Contains(out.String(), "millrace dev") || errs.Len() > 0 {
		t.Fatal(code, out.String(), errs.String())
	}
	var same bytes.Buffer
	code = Run(t.Context(), testApp(), Process{Args: []string{"help", "dev"}, Environ: os.Environ, Out: &same, Err: &errs})
	if code != 0 || same.String() != out.String() || errs.Len() > 0 {
		t.Fatal(code, same.String(), errs.String())
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	bad := dir + "/bad.yaml"
	broken := dir + "/broken.yaml"
	if err := errors.Join(os.WriteFile(bad, []byte("treads: 3\n"), 0o600), os.WriteFile(broken, []byte("a: [\n"), 0o600), syscall.Mkfifo(dir+"/fifo", 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"", "expected one of"},
		{"fly", "unexpected argument fly"},
		{"dev --tiny", "unknown flag --tiny"},
		{"dev --threads x", "--threads"},
		{"dev --threads 0", "--threads 0 is too few"},
		{"dev --commit-interval 0s", "--commit-interval 0s is not above zero"},
		{"dev --log-level loud", "loud"},
		{"dev --log-format xml", "--log-format"},
		{"dev --guarantee perhaps", "--guarantee"},
		{"run", "name it with --brokers"},
		{"dev --brokers nowhere", `--brokers "nowhere" is no address`},
		{"dev --listen nowhere", `--listen "nowhere" is no address`},
		{"dev --app a/b", `--app "a/b" is no name that Kafka takes`},
		{"dev --app ..", `--app ".." is no name`},
		{"dev --once --input " + dir + "/absent", "there is no file or folder " + dir + "/absent"},
		{"dev --once --input " + dir + "/fifo", "is neither a file nor a folder"},
		{"dev --config " + dir + "/absent", "there is no configuration file"},
		{"dev --config " + bad, `there is no setting "treads"`},
		{"dev --config " + broken, "cannot be read"},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), testApp(), Process{Args: strings.Fields(c.args), Environ: func() []string { return nil }, Out: &out, Err: &errs, world: newWorld()})
		line := errs.String()
		if code != 2 || out.Len() > 0 || strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "millrace: ") || !strings.Contains(line, c.want) {
			t.Errorf("%s: code %d, %q %q, want %q", c.args, code, out.String(), line, c.want)
		}
	}
}

// Nobody waits for a broker in silence.
func TestWaitingForABrokerIsTold(t *testing.T) {
	w := newWorld()
	w.unready = errors.New("nobody is there")
	var errs bytes.Buffer
	waited := time.Duration(0)
	code := Run(t.Context(), testApp(), Process{Args: []string{"run", "--brokers", "127.0.0.1:1", "--start-timeout", "7s"}, Environ: func() []string { return nil },
		Out: &bytes.Buffer{}, Err: &errs, world: w, after: func(d time.Duration, f func()) *time.Timer {
			waited = d
			f()
			return time.NewTimer(time.Hour)
		}})
	lines := strings.Split(errs.String(), "\n")
	if code != exitFailure || waited != 2*time.Second || lines[0] != "No broker of 127.0.0.1:1 answers yet; trying for 7s (--start-timeout)." || !strings.Contains(lines[1], "no broker of 127.0.0.1:1 answers within 7s") {
		t.Errorf("%d after %s: %s", code, waited, errs.String())
	}
}
