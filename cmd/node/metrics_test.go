package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/millrace-io/millrace/cli/text"
)

// The address of --listen has the metrics: as many words as there are, and what somebody has asked in vain.
func TestProgramShowsMetrics(t *testing.T) {
	d := startDev(t)
	if code, body := d.get(t, "/stores/none/keys/x"); code != http.StatusNotFound {
		t.Fatal(code, body)
	}
	code, body := d.get(t, "/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil || code != http.StatusOK {
		t.Fatal(code, err, body)
	}
	words := 0.0
	for _, line := range strings.Split(demoText, "\n") {
		for range text.Words(line) {
			words++
		}
	}
	counted, unknown := 0.0, 0.0
	for _, m := range families["millrace_task_records_total"].GetMetric() {
		for _, l := range m.Label {
			if l.GetName() == "task" && strings.HasPrefix(l.GetValue(), "1_") {
				counted += m.GetCounter().GetValue()
			}
		}
	}
	for _, m := range families["millrace_query_failures_total"].GetMetric() {
		for _, l := range m.Label {
			if l.GetValue() == "UnknownStateStore" {
				unknown += m.GetCounter().GetValue()
			}
		}
	}
	if counted != words || unknown != 1 {
		t.Errorf("%v words are counted, of %v; %v questions to stores that do not exist", counted, words, unknown)
	}
	d.stop <- os.Interrupt
	if got := <-d.done; got.code != 0 {
		t.Fatal(got.err)
	}
}
