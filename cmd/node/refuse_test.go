package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
)

// Whatever is wrong with the command line or the surroundings is one sentence that names it and the fix; the exit code is 2
// for a mistake of the caller and 1 for a failure.
func TestBinaryRefusesInOneSentence(t *testing.T) {
	addrs, dir := brokers(t), t.TempDir()
	d := begin(t, "demo", "dev", "--brokers", addrs, "--app", "inuse", "--state-dir", dir)
	d.await(d.out, "Ctrl-C ends it.")
	notDir := filepath.Join(dir, "file")
	if err := os.WriteFile(notDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code       int
		args, want string
	}{
		{2, "dev --tiny", "unknown flag --tiny"},
		{2, "fly", "unexpected argument fly"},
		{2, "dev --once --input " + dir + "/absent", "there is no file or folder " + dir + "/absent; give --input a path that exists"},
		{2, "dev --app to/pic", `--app "to/pic" is no name that Kafka takes for a topic; use`},
		{2, "dev --app " + strings.Repeat("x", 250), "is no name that Kafka takes for a topic; use 1 to 100"},
		{2, "run", "name it with --brokers"},
		{2, "dev --listen 0.0.0.0:0", "other machines can reach --listen 0.0.0.0:0, and there is no check of who asks"},
		{2, "dev --listen :0", "other machines can reach --listen :0"},
		{2, "dev --listen a.host:80", "other machines can reach --listen a.host:80"},
		{1, "dev --brokers 127.0.0.1:1 --start-timeout 300ms", "no broker of 127.0.0.1:1 answers within 300ms; start Kafka there, or name another with --brokers"},
		{1, "run --brokers 127.0.0.1:1 --start-timeout 300ms", "no broker of 127.0.0.1:1 answers within 300ms; start Kafka there, or name another with --brokers"},
		{1, "run --brokers " + addrs + " --app nothere --state-dir " + t.TempDir(), `topic "nothere-lines", which the topology reads`},
		{1, "dev --brokers " + addrs + " --app inuse --state-dir " + dir, filepath.Join(dir, "inuse") + " is in use by another process: stop it, or give this one another state directory"},
		{2, "dev --brokers " + addrs + " --app inuse --state-dir " + notDir, "--state-dir " + notDir + " cannot be a directory"},
	} {
		got := run(t, "demo", strings.Fields(c.args)...)
		if err := got.oneSentence(c.code, c.want); err != nil {
			t.Errorf("%s: %v: %+v, want %d and %q", c.args, err, got, c.code, c.want)
		}
	}
	if got := d.end(); strings.Contains(got.err, "use by another") {
		t.Errorf("the first process was disturbed: %s", got.err)
	}
}

// The second interrupt gives up what the first one waits for: the group does not answer who leaves it.
func TestBinarySecondInterruptGivesUpAndSaysWhat(t *testing.T) {
	c := embed(t)
	p := begin(t, "demo", "dev", "--brokers", strings.Join(c.Addrs(), ","), "--app", "stuck")
	p.await(p.out, "Ctrl-C ends it.")
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	c.Kfake().ControlKey(int16(kmsg.LeaveGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().SleepControl(func() { <-release })
		return nil, nil, false
	})
	p.signal(os.Interrupt)
	p.await(p.out, "Ctrl-C again gives up waiting.")
	// A person presses again until it helps: what follows the first one within a quarter of a second is the same wish.
	for again := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-again.C:
			_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended
			continue
		case <-p.exited:
			again.Stop()
		}
		break
	}
	got := p.result()
	last := got.err[strings.LastIndex(strings.TrimSuffix(got.err, "\n"), "\n")+1:]
	if got.code != 1 || !strings.Contains(last, "millrace: gave up waiting; abandoned: the closing of the node") || !strings.Contains(last, "will be processed again") {
		t.Fatalf("code %d, last words %q", got.code, last)
	}
}

// topics asks which of the given topics exist.
func topics(t *testing.T, addrs string, names ...string) map[string]kafka.TopicInfo {
	t.Helper()
	infos, err := admin(t, addrs).Topics(context.Background(), names...)
	if err != nil {
		t.Fatal(err)
	}
	return infos
}

func admin(t *testing.T, addrs string) *kafka.Admin {
	t.Helper()
	a, err := kafka.NewAdmin(kafka.Config{Brokers: strings.Split(addrs, ",")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// madeTopics notes the topics that are made from now on.
func madeTopics(c *embedded.Cluster) func() []string {
	names := make(chan string, 100)
	c.Kfake().ControlKey(int16(kmsg.CreateTopics), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		for _, topic := range r.(*kmsg.CreateTopicsRequest).Topics {
			names <- topic.Topic
		}
		return nil, nil, false
	})
	return func() (out []string) {
		for len(names) > 0 {
			out = append(out, <-names)
		}
		return out
	}
}

// ofApp are the topics of an application of the demo.
func ofApp(app string) []string {
	return []string{linesTopic(app), outputTopic(app), app + "-words-repartition", app + "-counts-changelog"}
}

// A count under an id that nobody chose leaves nothing on the cluster; one with --app does.
func TestBinaryOnceLeavesNothingBehind(t *testing.T) {
	c := embed(t)
	addrs := strings.Join(c.Addrs(), ",")
	input := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(input, []byte("b a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	made := madeTopics(c)
	if got := run(t, "demo", "dev", "--once", "--input", input, "--brokers", addrs); got.code != 0 || got.out != "a\t1\nb\t2\n" {
		t.Fatalf("%+v", got)
	}
	if names := made(); len(names) < 4 {
		t.Fatalf("only %q were made", names)
	} else if left := topics(t, addrs, names...); len(left) > 0 {
		t.Errorf("of %q %v is left", names, left)
	}
	if got := run(t, "demo", "dev", "--once", "--input", input, "--brokers", addrs, "--app", "kept", "--state-dir", t.TempDir()); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if have := topics(t, addrs, ofApp("kept")...); len(have) != 4 {
		t.Errorf("only %v of an application with a name is left", have)
	}
}
