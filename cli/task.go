package cli

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/record"
)

// taskCmd are the verbs about tasks that keep failing at one record.
type taskCmd struct {
	List       taskListCmd `cmd:"" help:"Ask a node which of its tasks are in quarantine, and at which records."`
	Skip       orderCmd    `cmd:"" help:"Have a task pass the record at which it is in quarantine, unprocessed."`
	Retry      orderCmd    `cmd:"" help:"Have a task try the record at which it is in quarantine now."`
	DeadLetter orderCmd    `cmd:"" help:"Have a task pass the record at which it is in quarantine, and write a dead letter."`
}

type taskListCmd struct {
	asking
}

// orderCmd names task and record: an order is about the record that a person has looked at, and no other.
type orderCmd struct {
	asking
	Task   string `arg:"" help:"Task, as task list prints it: 0_3."`
	Record string `arg:"" help:"Record at which it is in quarantine, as task list prints it: TOPIC-PARTITION@OFFSET."`
	remedy string
}

// asks is the question of a verb about tasks.
func (c *taskCmd) asks(verb []string) (asking, func(context.Context, *asker, *printer) error) {
	order := func(o *orderCmd) (asking, func(context.Context, *asker, *printer) error) {
		o.remedy = verb[0]
		return o.asking, o.ask
	}
	switch verb[0] {
	case "skip":
		return order(&c.Skip)
	case "retry":
		return order(&c.Retry)
	case "dead-letter":
		return order(&c.DeadLetter)
	}
	return c.List.asking, c.List.ask
}

// at names a record as parseRecord reads it: TOPIC-PARTITION@OFFSET.
func at(source record.TopicPartition, offset int64) string {
	return source.String() + "@" + number(offset)
}

func (c *taskListCmd) ask(ctx context.Context, a *asker, p *printer) error {
	body, err := a.get(ctx, "/tasks")
	if err != nil || p.raw(body) {
		return err
	}
	var all []httpapi.Quarantined
	if err := understand(body, &all); err != nil {
		return err
	}
	var rows [][]string
	for _, q := range all {
		source := record.TopicPartition{Topic: q.Topic, Partition: q.Partition}
		rows = append(rows, []string{q.Task, at(source, q.Offset), strconv.Itoa(q.Attempts), instant(q.Retry.UnixMilli()), q.Thread, short(q.Cause)})
	}
	return p.table([]string{"TASK", "RECORD", "ATTEMPTS", "NEXT RETRY", "THREAD", "CAUSE"}, rows)
}

func (c *orderCmd) ask(ctx context.Context, a *asker, p *printer) error {
	named, err := parseRecord(c.Record)
	if err != nil {
		return err
	}
	if sub, partition, ok := strings.Cut(c.Task, "_"); !ok || !isNumber(sub) || !isNumber(partition) {
		return usagef("task %q is no task; name it as task list prints it, such as 0_3", c.Task)
	}
	order, err := json.Marshal(named)
	if err != nil {
		return failf(err, "the order cannot be written")
	}
	body, err := a.post(ctx, "/tasks/"+url.PathEscape(c.Task)+"/"+c.remedy, order)
	if err != nil || p.raw(body) {
		return err
	}
	done := map[string]string{"skip": "skipped", "retry": "processed", "dead-letter": "passed with a dead letter"}
	return p.lines([][]string{{"task " + c.Task + ": " + c.Record + " is " + done[c.remedy] + ", and that is committed"}})
}

// named is a record as an order names it.
type named struct {
	Topic     string `json:"topic"`
	Partition int64  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// parseRecord reads TOPIC-PARTITION@OFFSET. A topic may hold dashes.
func parseRecord(text string) (n named, err error) {
	place, offset, ok := cutLast(text, "@")
	topic, partition, found := cutLast(place, "-")
	if !ok || !found || topic == "" || !isNumber(partition) || !isNumber(offset) {
		return n, usagef("record %q is no record; name it as task list prints it, TOPIC-PARTITION@OFFSET, such as lines-3@41", text)
	}
	n.Topic = topic
	if n.Partition, err = strconv.ParseInt(partition, 10, 32); err == nil {
		n.Offset, err = strconv.ParseInt(offset, 10, 64)
	}
	if err != nil {
		return n, &UsageError{Detail: "record " + strconv.Quote(text) + " has a number that is too large", Cause: err}
	}
	return n, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
