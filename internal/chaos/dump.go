package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/chaos/oracle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// shards are the partitions of one store that a node answers for.
type shards map[string][]oracle.Shard

// onePartition lets a scan, which goes through all partitions of a store, ask for one of them only: to the scan it is
// a client of a store with one partition.
type onePartition struct {
	query.Client
	partition int32
}

// Ask implements query.Client.
func (c onePartition) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	q.GetAbout().Partition = &c.partition
	return c.Client.Ask(ctx, q)
}

// Partitions implements query.Client.
func (onePartition) Partitions(context.Context, string) (int32, error) { return 1, nil }

// pageEntries makes pages so small that a dump needs several.
const pageEntries = 7

// dump reads every store partition of this node through its store actor, page by page.
func dump(ctx context.Context, node *millrace.Node) (shards, error) {
	all := shards{}
	for p := range int32(partitions) {
		if err := dumpPartition(ctx, node, p, counts, all, func(n int64) oracle.Value { return oracle.Value{Sum: n} }); err != nil {
			return nil, err
		}
		if err := dumpPartition(ctx, node, p, sums, all, sum.value); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func dumpPartition[V any](ctx context.Context, node *millrace.Node, p int32, h query.Handle[string, V], all shards, value func(V) oracle.Value) error {
	s := oracle.Shard{Partition: p, Entries: []oracle.Entry{}}
	for e, err := range query.All(ctx, onePartition{node, p}, h, query.PageSize(pageEntries, 0)) {
		if errors.Is(err, query.ErrInvalidStateStorePartition) || errors.Is(err, query.ErrStateStoreMigrated) {
			return nil // another node has it
		}
		if err != nil {
			return fmt.Errorf("partition %d of store %s: %w", p, h.StoreName(), err)
		}
		s.Entries = append(s.Entries, oracle.Entry{Key: e.Key, Value: value(e.Value), Timestamp: e.Timestamp})
	}
	all[h.StoreName()] = append(all[h.StoreName()], s)
	return nil
}

func (s sum) value() oracle.Value { return oracle.Value{Sum: s.Sum, Count: s.Count, Last: s.Last} }
