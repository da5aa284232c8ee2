package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
)

// Another Kafka Streams program can be held against ours, which must be no slower: a benchmark that wins against a peer of its
// own making proves little. It takes "run JOB GUARANTEE" and system properties, and prints key=value pairs.

// sharedJobs are what it calls the jobs that it knows.
var sharedJobs = map[string]string{"count": "count", "words": "wordcount", "pass": "pass"}

func sharedDoes(j work.Job) bool {
	return steady(j) && sharedJobs[j.Does] != "" && j.Input.Compression == ""
}

func buildShared(ctx context.Context, b *bench) error {
	if b.shared == "" {
		return fmt.Errorf("say with -shared where its src/Peer.java is")
	}
	if err := buildPeer(ctx, b); err != nil { // for its libraries
		return err
	}
	return quietly(ctx, "javac", "-cp", peerClasses("."), "-d", filepath.Join(b.dir, "shared"), filepath.Join(b.shared, "src", "Peer.java"))
}

func sharedCommand(b *bench, a assignment) []string {
	guarantee := "alos"
	if a.job.Guarantee == "exactly_once" {
		guarantee = "eos"
	}
	command := []string{"java", "-Xmx1g", "-cp", peerClasses(filepath.Join(b.dir, "shared")), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-Dbootstrap=" + b.broker, "-Din=" + a.in, "-Dapp=" + a.app, "-Ddir=" + a.state, "-Dcommit=100", fmt.Sprintf("-Drecords=%d", a.records)}
	if a.job.Uncached {
		command = append(command, "-Dbuffer=0")
	}
	return append(command, "Peer", "run", sharedJobs[a.job.Does], guarantee)
}

// parseShared reads its last line. Its memory is that of the end, not the peak.
func parseShared(line string) (r measure.Result, err error) {
	figures := map[string]float64{}
	for field := range strings.FieldsSeq(line) {
		name, value, ok := strings.Cut(field, "=")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			figures[name] = n
		}
	}
	for _, needed := range []string{"records", "seconds", "cpu_s"} {
		if figures[needed] == 0 {
			return r, fmt.Errorf("its last line has no %s: %s", needed, line)
		}
	}
	return measure.Result{
		ToRunningS: figures["to_running_s"], Records: int64(figures["records"]), Counted: int64(figures["words"]), Outputs: int64(figures["updates"]),
		Seconds: figures["seconds"], CPUS: figures["cpu_s"], PeakMiB: int64(figures["rss_mib"]),
	}, nil
}
