package lint

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rule is what one room may import. The first rule whose room is the file's directory, or a parent of it, decides.
type rule struct {
	room string
	// ours are the rooms of this module that it may import; "*" stands for all but the doors below. A room may always
	// import its own sub-rooms and, with "^", its parent.
	ours []string
	// theirs are the governed libraries that it may import.
	theirs []string
}

// doors are rooms that "*" does not open.
var doors = []string{"cli", "exposition", "cmd", "millracetest", "bench", "examples", "internal"}

// governed libraries may be imported only where a rule says so; other libraries are free except in the leaves.
var governed = map[string]string{
	"sarama":     "github.com/IBM/sarama",
	"pebble":     "github.com/cockroachdb/pebble",
	"protoactor": "github.com/asynkron/protoactor-go",
	"kfake":      "github.com/twmb/franz-go",
	"otel":       "go.opentelemetry.io/otel/sdk",
	"exporters":  "go.opentelemetry.io/otel/exporters",
	"prometheus": "github.com/prometheus",
}

var rules = []rule{
	{room: "record/codec", ours: []string{"record"}},
	{room: "record"},
	{room: "lifecycle", ours: []string{"record"}},
	{room: "broker", ours: []string{"record"}},
	{room: "assign", ours: []string{"record"}},
	{room: "topology", ours: []string{"record"}},
	{room: "fault", ours: []string{"record"}},
	{room: "task", ours: []string{"record", "topology", "lifecycle", "broker", "fault"}},
	{room: "query/router", ours: []string{"query", "record", "lifecycle", "actors"}, theirs: []string{"protoactor"}},
	{room: "query/remote", ours: []string{"query", "record", "lifecycle", "actors"}, theirs: []string{"protoactor"}},
	{room: "query/httpapi", ours: []string{"query", "record", "lifecycle", "actors"}},
	// It shows what root gives it, and asks through the HTTP interface as a handler.
	{room: "page", ours: []string{"query", "record", "lifecycle", "topology"}},
	{room: "query", ours: []string{"record", "lifecycle"}},
	{room: "actors", ours: []string{"lifecycle"}, theirs: []string{"protoactor"}},
	{room: "store", ours: []string{"record", "lifecycle", "broker", "query", "actors", "fault"}, theirs: []string{"pebble", "protoactor"}},
	{room: "thread", ours: []string{"task", "record", "topology", "lifecycle", "broker", "assign", "actors", "query", "fault"}, theirs: []string{"protoactor"}},
	{room: "kafka/embedded", theirs: []string{"kfake"}},
	{room: "kafka", ours: []string{"record", "broker"}, theirs: []string{"sarama"}},
	// What it shows comes through OpenTelemetry's interface; it knows nothing of a node.
	{room: "exposition", theirs: []string{"otel", "exporters", "prometheus"}},
	{room: "cli", ours: []string{"*", "cli", "exposition"}},
	{room: "cmd", ours: []string{"*", "cli", "exposition"}},
	// The actor program that asks a node knows the messages only.
	{room: "examples/remotequery", ours: []string{"cli", "topology", "record", "query/querypb"}, theirs: []string{"protoactor"}},
	{room: "examples", ours: []string{"*", "cli", "exposition"}},
	// The public test kit: nothing imports it but tests. Its driver has tasks and stores of its own.
	{room: "millracetest", ours: []string{"*", "internal/plan"}, theirs: []string{"pebble", "protoactor"}},
	// The raw client's limit is measured with the raw client, and the bench checks outputs without Millrace's own code.
	{room: "bench/raw", ours: []string{"bench"}, theirs: []string{"sarama"}},
	{room: "bench", ours: []string{"*", "bench", "internal/realkafka"}},
	{room: "internal/realkafka"},
	// Chaos checks Millrace with the raw client; its oracle and that client know nothing of Millrace but a record.
	{room: "internal/chaos/oracle"},
	{room: "internal/chaos/wire", ours: []string{"record"}, theirs: []string{"sarama"}},
	{room: "internal/chaos", ours: []string{"*", "internal/realkafka"}, theirs: []string{"sarama"}},
	// The simulator runs what it simulates without root, on file systems of the engine's and with actors on its own goroutine.
	{room: "internal/sim", ours: []string{"*", "internal/plan"}, theirs: []string{"pebble", "protoactor"}},
	{room: "internal/storm", ours: []string{"*", "internal/realkafka", "internal/chaos/wire"}},
	{room: "internal/soak"},
	// What a node, the kit's driver and the simulator are all built from.
	{room: "internal/plan", ours: []string{"record", "topology", "task", "store"}},
	{room: "internal/lint"},
	{room: ".", ours: []string{"*", "internal/plan"}, theirs: []string{"protoactor"}},
}

// leaves may import nothing from outside but Protobuf.
var leaves = []string{"record", "lifecycle", "broker", "assign", "fault"}

func ruleOf(room string) (rule, bool) {
	for _, r := range rules {
		if within(room, r.room) {
			return r, true
		}
	}
	return rule{}, false
}

func within(room, parent string) bool {
	return room == parent || (parent != "." && strings.HasPrefix(room, parent+"/"))
}

func withinAny(room string, parents []string) bool {
	return slices.ContainsFunc(parents, func(p string) bool { return within(room, p) })
}

// Imports point as docs/architecture.md says. Tests of a room may import more of ours (a wired-up node, say), but the
// libraries stay where they are.
func TestImports(t *testing.T) {
	for _, s := range parsed(t).goes {
		r, ok := ruleOf(s.room)
		if !ok {
			t.Errorf("%s: the room %s has no rule; give it one here and in docs/architecture.md", s.path, s.room)
			continue
		}
		for _, i := range s.file.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if reason := refuse(r, s, path); reason != "" {
				t.Errorf("%s imports %s: %s", s.path, path, reason)
			}
		}
	}
}

// refuse is the reason why a file of a room may not import path, or nothing.
func refuse(r rule, s source, path string) string {
	if path == module || strings.HasPrefix(path, module+"/") {
		if s.test {
			return ""
		}
		return refuseOurs(r, s.room, strings.TrimPrefix(strings.TrimPrefix(path, module), "/"))
	}
	for name, prefix := range governed {
		if strings.HasPrefix(path, prefix) && !slices.Contains(r.theirs, name) && !s.test {
			return name + " is for other rooms"
		}
	}
	outside := strings.Contains(strings.SplitN(path, "/", 2)[0], ".")
	if outside && !s.test && withinAny(s.room, leaves) && !strings.HasPrefix(path, "google.golang.org/protobuf") {
		return "a leaf imports the standard library only"
	}
	return ""
}

func refuseOurs(r rule, room, imported string) string {
	if imported == "" {
		imported = "."
	}
	if within(imported, room) && room != "." || withinAny(imported, r.ours) {
		return ""
	}
	if slices.Contains(r.ours, "*") && !withinAny(imported, doors) {
		return ""
	}
	if room != "." && within(room, imported) && imported == r.room {
		return ""
	}
	return "the room " + r.room + " may import " + strings.Join(r.ours, ", ") + " of ours"
}

// The rules refuse what the design refuses; without this, a rule that allows everything would look like a clean tree.
func TestRulesRefuse(t *testing.T) {
	for _, test := range []struct {
		room, path string
		allowed    bool
	}{
		{"thread", "github.com/IBM/sarama", false},
		{"thread", module + "/store", false},
		{"thread", module + "/task", true},
		{"task", module + "/thread", false},
		{"store", module + "/kafka", false},
		{"store", "github.com/cockroachdb/pebble/v2", true},
		{"kafka", "github.com/IBM/sarama", true},
		{"kafka", module + "/thread", false},
		{"query", "github.com/asynkron/protoactor-go/actor", false},
		{"query/router", "github.com/asynkron/protoactor-go/actor", true},
		{"query", module + "/query/querypb", true},
		{"record", "github.com/google/uuid", false},
		{"record", module + "/broker", false},
		{"lifecycle", "fmt", true},
		{".", module + "/cli", false},
		{".", module + "/kafka", true},
		{".", module + "/exposition", false},
		{".", "go.opentelemetry.io/otel/metric", true},
		{".", "go.opentelemetry.io/otel/sdk/metric", false},
		{"exposition", "go.opentelemetry.io/otel/exporters/prometheus", true},
		{"exposition", module, false},
		{"cli", module + "/exposition", true},
		{"cmd/node", module + "/cli", true},
		{"bench/millrace", module, true},
	} {
		r, _ := ruleOf(test.room)
		if reason := refuse(r, source{room: test.room}, test.path); (reason == "") != test.allowed {
			t.Errorf("%s imports %s: allowed is %t (%s), want %t", test.room, test.path, reason == "", reason, test.allowed)
		}
	}
}
