package kafka

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/transaction"
)

var rewrite = flag.Bool("rewrite", false, "write docs/transactions.md anew")

const docPath = "../docs/transactions.md"

// excerptRow is a row of the KIP-691 excerpt: its exceptions, its verdict, what Millrace does about it beyond the lines of the
// table, and the tests that prove it beyond those that the lines name.
type excerptRow struct {
	names   []string
	verdict string
	classes []broker.Class // that the verdict means
	does    string
	tests   []string
}

var excerpt = []excerptRow{
	{[]string{"IllegalStateException"}, "fatal, never wrapped", nil,
		"A call that the caller should not have made (a commit without a flush) is answered with class Fatal; the cause is `transaction.ErrIllegalState` itself. A move that the transition table does not hold is a bug of the machine and panics with both states.",
		[]string{"TestStories/illegal"}},
	{[]string{"AuthenticationException"}, "fatal", []broker.Class{broker.Fatal}, "", nil},
	{[]string{kipPidMapping}, "abortable since KIP-360", []broker.Class{broker.Abort},
		"The id has expired; the abort's InitProducerId gives a new producer id to the same object.", []string{provesExpired, "TestStories/expired"}},
	{[]string{kipUnknownPid}, "abortable since KIP-360", []broker.Class{broker.Abort}, "Brokers since 2.5 do not send it.", []string{"TestTransactionsOutliveEveryCode"}},
	{[]string{"TransactionAbortedException"}, "no error", nil,
		"An abort takes back batches that no broker has seen without a word; flushes before it are not answered.", []string{"TestAbortSilencesWhatCameBefore", "TestStories/abort-clean"}},
	{[]string{kipCluster, kipTxnId, "UnsupportedVersionException", kipFormat}, "fatal", []broker.Class{broker.Fatal},
		"What is denied to the transactional id cannot even be aborted (state FATAL); an abort asks once more, in case it is allowed by now.", []string{"TestStories/denied-id"}},
	{[]string{kipInvalidRecord, kipAcks, kipReplicasAfter, kipReplicas, kipTooLarge, kipInvalidTopic, kipCorrupt, kipUnknownTopic, kipNotLeader, kipTimeout},
		"abortable", []broker.Class{broker.Abort},
		"One line per code. What passes is retried with the same batch and sequence until the delivery time-out, which then costs the transaction (Abort). What is wrong with one record costs that record: it is handed back in `broker.Flushed.Refused`, the rest of its batch goes again, and what was sent behind it is numbered anew. The producer asks for all replicas always, and a topic that is not valid will not be at the next try either: those two are Fatal.",
		[]string{"TestStories/bad-record", "TestStories/retries", "TestStories/overdue", "TestRefusedRecordDoesNotCostTheTransaction", "TestTransactionsOutliveEveryCode"}},
	{[]string{kipTopic, kipGroup}, "abortable, should be fatal", []broker.Class{broker.Fatal},
		"Fatal, as the excerpt wants it; what is open is aborted under the same epoch.", []string{"TestStories/denied", "TestDeniedTopicIsFatalAndCanBeAborted"}},
	{[]string{kipInstance, kipCommitFailed}, "abortable, should be fatal, since it tells of a fence", []broker.Class{broker.Fatal},
		"Class Migrated: the transaction is not committed, the tasks are dropped without a commit, the member joins again. The producer is well: its transaction is aborted under the same epoch.",
		[]string{provesMember, "TestStories/stale-member"}},
	{[]string{kipEpoch}, "fatal from a transactional response, abortable from produce; in TxnOffsetCommit it should be ProducerFenced", []broker.Class{broker.Abort},
		"Everywhere the same as ProducerFenced. A real broker answers 47 to a producer whose transaction has timed out exactly as to one that was fenced, so the code alone decides nothing.", []string{provesTimeout, "TestStories/timed-out"}},
	{[]string{kipFenced}, "fatal", []broker.Class{broker.Fatal},
		"A coordinator answers 90 after a time-out, too. So the abort asks: InitProducerId with the old epoch is answered with 0 after a time-out (go on) and with 90 after a fence (Migrated; the abort after that takes the id back). If somebody else has a transaction open it is not even asked, because the broker would abort that one.",
		[]string{provesTimeout, provesFence, provesZombie, "TestStories/fenced", "TestStories/fenced-idle", "TestStories/fenced-between"}},
	{[]string{kipSequence}, "abortable", []broker.Class{broker.Abort}, "Behind a batch that was not taken it is a matter of course, and the batch is sent again.", []string{provesRecord, "TestStories/retries"}},
	{[]string{kipTxnState}, "fatal", []broker.Class{broker.Fatal},
		"A real broker says so when a transaction has ended without its producer's knowledge; the producer recovers like from a time-out. In answer to a repeated commit it says that the commit did not happen.",
		[]string{provesTimeout, "TestRepeatedCommitTellsTheOutcome", "TestStories/indefinite-aborted"}},
	{[]string{"KafkaException 1"}, "sequence-unresolved batches: abortable since KIP-360, wrapped once", nil,
		"A batch whose fate is not known keeps its sequence until it is known; if it is given up, the epoch is raised before anything else is sent.", []string{"TestStories/abort-doubt", "TestEveryPromiseUnderRandomAnswers"}},
	{[]string{"KafkaException 2"}, "closing: no error", nil, "Close delivers nothing, waits for nobody, and the next producer of the name ends what was open.", []string{"TestCloseWithATransactionPendingIsNoError"}},
	{[]string{"KafkaException 3"}, "a response without its content: IllegalState", nil, "An answer that lacks what was asked for is Malformed: Fatal and bare.", []string{"TestCorrelationMismatchIsBareAndFatal"}},
	{[]string{"KafkaException 4"}, "all unexpected errors from a transactional response: fatal, wrapped once", nil,
		"A code that the table does not hold is Fatal, with the bare code as its cause; from produce it costs the transaction the first time and is Fatal when it is repeated.",
		[]string{"TestClassifyIsTheTable", "TestUnheardOfCodeIsFatalWhenRepeated", "TestStories/unheard-of"}},
	{[]string{kipPartitions}, "partition-level errors of addPartitions: abortable, wrapped once", []broker.Class{broker.Abort},
		"The partition's own code decides; nothing is wrapped. One topic that the cluster does not know does not keep the others out.", []string{provesUnknown, "TestStories/unknown-topic"}},
	{[]string{"RuntimeException"}, "correlation id mismatch: an IllegalState, not wrapped", []broker.Class{broker.Fatal},
		"The client library's decoding error is the cause, bare, in an error of class Fatal. It is never retried.", []string{"TestCorrelationMismatchIsBareAndFatal"}},
}

// sentence is one of the excerpt's "Streams Side Change" and after it.
type sentence struct {
	says, does string
	tests      []string
}

var sentences = []sentence{
	{"Catch all exceptions of the data transmission phase to decide for the commit.",
		"What happens to batches is kept until the flush: `broker.Flushed` is the one place where the loop hears of it, and a commit may only follow one without an error.", []string{"TestStories/timed-out", "TestEveryPromiseUnderRandomAnswers"}},
	{"Analyse non-fatal exceptions by unwrapping the cause and reading the failure type.",
		"Every failure is a `*broker.Error{Op, Code, Class, Source, Cause}`, found with `errors.As`; `Cause` is the bare error, found with `errors.Is`.", []string{"TestTransportErrorsAreRetriedExceptACommit", "TestCorrelationMismatchIsBareAndFatal"}},
	{"ProducerFenced need not be wrapped as TaskMigrated in the send callback and should not crash the thread.",
		"A batch's 47 or 90 has class Abort; only the abort's own InitProducerId says Migrated. Nothing ends the thread.", []string{provesTimeout, provesFence}},
	{"After lost partitions or a migrated task, keep the producer and re-initialise its transactions, so that dangling ones are aborted before new ones start.",
		"`Producer.Abort` does it on the same object, with an epoch of its own where anything is in doubt. No producer is ever replaced: one object per thread slot.", []string{provesTimeout, provesFence, provesExpired, "TestTransactionsOutliveEveryCode"}},
	{"Distinguish exceptions from the send callback from those of calls; exactly once, the only one that comes in the callback alone is TransactionAborted, which can be ignored.",
		"Exactly once there are no callbacks: calls are answered by events. What an abort takes back is given back in silence.", []string{"TestAbortSilencesWhatCameBefore"}},
	{"At least once: capture exceptions from the callback and handle them as today.",
		"At least once the flush's `Err` and `Refused` are the delivery reports; the producer id is replaced without a word when the brokers have forgotten it.", []string{"TestProducerGivesUpAfterItsDeliveryTimeout", "TestProducerTellsRefusedRecords", "TestStories/idempotent-forgotten"}},
	{"Exactly once: ignore exceptions from the callback, handle those of the calls.",
		"`Flushed`, `TransactionEnded` and `TransactionAborted` decide, each answered exactly once.", []string{"TestEveryPromiseUnderRandomAnswers"}},
	{"Users could choose to ignore transactional errors, since the other calls take care of them.",
		"By class: handlers receive the `*broker.Error`, and Abort, Migrated and CommitUnknown are the transactional ones.", []string{"TestClassifyAgreesWithARealBroker"}},
	{"Put the newly marked fatal exceptions into the public documentation.", "The list below, and the doc comments of `kafka.Producer` and `broker.TransactionEnded`.", []string{"TestTransactionsDocument"}},
}

// TestTransactionsDocument compares docs/transactions.md with what the tables say.
func TestTransactionsDocument(t *testing.T) {
	got := render()
	if *rewrite {
		if err := os.WriteFile(docPath, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Fatal("docs/transactions.md is not what the tables say; go test ./kafka -run TestTransactionsDocument -rewrite writes it")
	}
}

func render() string {
	var b strings.Builder
	b.WriteString(prose)
	b.WriteString("\n## States\n\n| from | to | when |\n|---|---|---|\n")
	for _, m := range transaction.Moves() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.From, m.To, m.Why)
	}
	b.WriteString("\n## The KIP-691 excerpt, row by row\n\n| exception | the excerpt says | what Millrace does | request, code → class | proved by |\n|---|---|---|---|---|\n")
	for _, e := range excerpt {
		renderRow(&b, e)
	}
	b.WriteString("\n## Its \"Streams Side Change\", sentence by sentence\n\n| the excerpt says | what Millrace does | proved by |\n|---|---|---|\n")
	for _, s := range sentences {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.says, s.does, code(s.tests))
	}
	b.WriteString("\n## Every request and code\n\n| request | code | situation | class | why |\n|---|---|---|---|---|\n")
	for _, r := range producerLines() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", opName(r), codeName(r.code), situationName(r.in), r.class, r.why)
	}
	b.WriteString("\n## Fatal codes\n\nA code that is not in the table is Fatal. Of those that are in it, these are:\n\n")
	for _, r := range producerLines() {
		if r.class == broker.Fatal {
			fmt.Fprintf(&b, "* %s %s: %s\n", opName(r), codeName(r.code), r.why)
		}
	}
	return b.String()
}

func renderRow(b *strings.Builder, e excerptRow) {
	tests := slices.Clone(e.tests)
	var lines []string
	for _, r := range producerLines() {
		if !slices.Contains(e.names, r.kip) {
			continue
		}
		where := ""
		if r.in != transaction.First {
			where = " (" + situationName(r.in) + ")"
		}
		lines = append(lines, fmt.Sprintf("%s %s%s → %s", opName(r), codeName(r.code), where, r.class))
		if r.test != "" && !slices.Contains(tests, r.test) {
			tests = append(tests, r.test)
		}
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", strings.Join(e.names, ", "), e.verdict, e.does, strings.Join(lines, "<br>"), code(tests))
}

// producerLines are the lines about a producer's requests, those for any request included.
func producerLines() (lines []row) {
	for _, r := range table {
		if r.ops == nil || slices.ContainsFunc(transactional, func(t row) bool { return t.ops[0] == r.ops[0] && t.code == r.code && t.in == r.in }) {
			lines = append(lines, r)
		}
	}
	return lines
}

func opName(r row) string {
	if r.ops == nil {
		return "any"
	}
	return string(r.ops[0])
}

func codeName(c int16) string {
	switch c {
	case transaction.Transport:
		return "no answer"
	case transaction.NotSent:
		return "not sent"
	case transaction.Malformed:
		return "unreadable"
	}
	return fmt.Sprint(c)
}

func situationName(s transaction.Situation) string {
	return [...]string{"", "repeated", "behind a batch that was not taken", "to abort", "again"}[s]
}

func code(names []string) string {
	var quoted []string
	for _, n := range names {
		quoted = append(quoted, "`"+n+"`")
	}
	return strings.Join(quoted, "<br>")
}

// Every line that carries a row of the excerpt out names one that exists, and where its class is not the excerpt's verdict
// it names a test that proves it.
func TestEveryLeaveOfTheExcerptIsProved(t *testing.T) {
	verdicts := map[string][]broker.Class{}
	for _, e := range excerpt {
		for _, n := range e.names {
			verdicts[n] = e.classes
		}
		if e.does == "" && !slices.ContainsFunc(table, func(r row) bool { return slices.Contains(e.names, r.kip) }) {
			t.Errorf("%v: nothing is said about it", e.names)
		}
	}
	for _, r := range table {
		if r.kip == "" {
			continue
		}
		classes, ok := verdicts[r.kip]
		if !ok {
			t.Errorf("%v %d names %q, which is not in the excerpt", r.ops, r.code, r.kip)
		}
		if !slices.Contains(classes, r.class) && r.test == "" {
			t.Errorf("%v %d in situation %d is %s, the excerpt says %v for %s: no test proves it", r.ops, r.code, r.in, r.class, classes, r.kip)
		}
	}
}

// Every test that the document names exists: a function, and for "a/b" a story or a subtest of that name.
func TestEveryNamedTestExists(t *testing.T) {
	var all strings.Builder
	stories := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, "_test.go") && path != "transaction_doc_test.go" {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all.Write(text)
		}
		if filepath.Dir(path) == filepath.Join("transaction", "testdata") || strings.HasSuffix(filepath.Dir(path), filepath.Join("kafka", "transaction", "testdata")) {
			stories[strings.TrimSuffix(filepath.Base(path), ".txt")] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text := all.String()
	for _, name := range regexp.MustCompile("`(Test[A-Za-z0-9]+(?:/[A-Za-z0-9-]+)?)`").FindAllStringSubmatch(render(), -1) {
		function, sub, nested := strings.Cut(name[1], "/")
		if function == "TestTransactionsDocument" {
			continue
		}
		if !strings.Contains(text, "func "+function+"(t ") {
			t.Errorf("there is no %s", function)
		}
		if nested && !stories[sub] && !strings.Contains(text, `"`+sub+`"`) {
			t.Errorf("there is no %s in %s", sub, function)
		}
	}
}
