package cli

import (
	"context"
	"os"
	"strings"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
)

// Headers of a mark in the log of claims; its kind is the record's value and its process the key.
const (
	headerToken = "token"
	headerOf    = "of"
)

// claimTopic is where the claims to feed an application are.
func claimTopic(appID string) string { return appID + "-feed-claims" }

// Claims implements world.
func (real) Claims(ctx context.Context, at kafka.Config, topic string) (claimLog, error) {
	c := &realCluster{cfg: at}
	var err error
	if c.admin, err = kafka.NewAdmin(c.cfg); err != nil {
		return nil, err
	}
	l := &realClaims{cluster: c, at: record.TopicPartition{Topic: topic}}
	if _, err = c.Create(ctx, []string{topic}, 1); err == nil {
		l.sink, err = c.Sink(topic)
	}
	if err == nil {
		l.reader, err = kafka.NewChangelog(c.cfg)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// realClaims is the log of claims on a cluster. next is where the marks end that were read.
type realClaims struct {
	cluster *realCluster
	sink    sink
	reader  *kafka.Changelog
	at      record.TopicPartition
	marks   []mark
	next    int64
}

// Append implements claimLog.
func (l *realClaims) Append(ctx context.Context, m mark) error {
	r := &record.Raw{Key: []byte(m.process), Value: []byte(m.kind), Headers: record.Headers{
		{Key: headerToken, Value: []byte(m.token)}, {Key: headerOf, Value: []byte(m.of)}}}
	if err := l.sink.Append(ctx, 0, r); err != nil {
		return err
	}
	return l.sink.Flush(ctx)
}

// All implements claimLog.
func (l *realClaims) All(ctx context.Context) ([]mark, error) {
	ends, err := l.cluster.admin.Ends(ctx, []record.TopicPartition{l.at}, false)
	if err != nil {
		return nil, err
	}
	end := ends[l.at]
	err = l.reader.Read(ctx, l.at, max(l.next, end.Start), end.HighWatermark, false, func(b broker.Batch) error {
		for i := range b.Records {
			l.marks = append(l.marks, markOf(&b.Records[i]))
		}
		return nil
	})
	if err == nil {
		l.next = end.HighWatermark
	}
	return l.marks, err
}

// markOf copies a mark out of a batch, whose memory is used again.
func markOf(r *record.Raw) mark {
	token, _ := r.Headers.Last(headerToken)
	of, _ := r.Headers.Last(headerOf)
	return mark{kind: markKind(r.Value), process: string(r.Key), token: string(token), of: string(of)}
}

// Close implements claimLog.
func (l *realClaims) Close() error {
	var err error
	if l.sink != nil {
		err = l.sink.Close()
	}
	if l.reader != nil {
		l.reader.Close()
	}
	_ = l.cluster.Close()
	return err
}

// ProcessID implements node.
func (n *realNode) ProcessID() (string, error) {
	b, err := os.ReadFile(n.processFile)
	return strings.TrimSpace(string(b)), err
}
