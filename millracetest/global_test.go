package millracetest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	priceList = topology.NewTopic("price-list", codec.String, codec.Int64)
	prices    = topology.NewGlobalStore("prices", priceList)
	sales     = topology.NewTopic("sales", codec.String, codec.String)
)

// selling writes the price of each sale, which is a product, and 0 for one that has none.
func selling(tb testing.TB, prices topology.GlobalStore[string, int64], more ...func(*topology.Builder)) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder()
	priced := topology.LeftJoinGlobal(topology.From(b, sales), prices, func(r text) (string, bool) { return r.Value, true },
		func(_ text, price int64, _ bool) (int64, error) { return price, nil })
	topology.To(priced, totals)
	for _, f := range more {
		f(b)
	}
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// sell makes a sale in each partition and gives what was paid, which must be the same in all.
func sell(tb testing.TB, d *millracetest.Driver, product string) (price int64) {
	tb.Helper()
	millracetest.Send(d, sales, millracetest.R("ann", product).In(0), millracetest.R("bob", product).In(1))
	paid := millracetest.Read(d, totals)
	if len(paid) != 2 || paid[0].Value != paid[1].Value {
		tb.Fatalf("two sales of %s: %v", product, paid)
	}
	return paid[0].Value
}

func TestGlobalStoreIsJoinedAndAsked(t *testing.T) {
	for name, store := range map[string]topology.GlobalStore[string, int64]{"on disk": prices, "in memory": prices.InMemory()} {
		t.Run(name, func(t *testing.T) {
			d := millracetest.NewDriver(t, selling(t, store), millracetest.Partitions("sales", 2), millracetest.Partitions("price-list", 3))
			if got := sell(t, d, "pen"); got != 0 {
				t.Errorf("a pen without a price costs %d", got)
			}
			millracetest.Send(d, priceList, millracetest.R("pen", int64(3)), millracetest.R("ink", int64(5)), millracetest.R("cup", int64(9)), millracetest.R("pen", int64(2)))
			if got := millracetest.Read(d, totals); len(got) != 0 {
				t.Errorf("the table alone causes %v", got)
			}
			millracetest.Send(d, priceList, millracetest.Tombstone[string, int64]("cup"))
			want := map[string]int64{"pen": 2, "ink": 5}
			for again, how := range map[string]func(){"at once": func() {}, "restart": d.Restart, "crash": d.Crash, "lost state": d.LoseState} {
				how()
				if pen, ink, cup := sell(t, d, "pen"), sell(t, d, "ink"), sell(t, d, "cup"); pen != 2 || ink != 5 || cup != 0 {
					t.Errorf("%s: a pen is %d, ink %d and a cup %d", again, pen, ink, cup)
				}
				got := map[string]int64{}
				for e, err := range query.All(context.Background(), d, store) {
					if err != nil {
						t.Fatal(again, err)
					}
					got[e.Key] = e.Value
				}
				same(t, got, want)
			}
			if n, err := d.Partitions(context.Background(), "prices"); n != 1 || err != nil {
				t.Errorf("a global store has %d partitions, %v", n, err)
			}
			d.Close()
			if _, _, err := query.Get(context.Background(), d, store, "pen"); !errors.Is(err, query.ErrStreamThreadNotRunning) {
				t.Errorf("a closed driver answers with %v", err)
			}
		})
	}
}

// A record that cannot be read stops the store, and with it the tasks, unless the handler lets it go.
func TestGlobalStoreMeetsWhatItCannotRead(t *testing.T) {
	unreadable := record.Raw{Key: []byte("pen"), Value: []byte("three")}
	to := record.TopicPartition{Topic: "price-list"}
	d := millracetest.NewDriver(t, selling(t, prices))
	millracetest.Send(d, priceList, millracetest.R("pen", int64(3)))
	err := millracetest.SendRaw(d, to, unreadable)
	if e := (*millrace.GlobalRecordError)(nil); !errors.As(err, &e) || e.Offset != 1 || e.Source != to || e.Store != "prices" {
		t.Errorf("%v", err)
	}
	if err := millracetest.TrySend(d, sales, millracetest.R("ann", "pen")); err == nil || len(millracetest.Read(d, totals)) > 0 {
		t.Errorf("the tasks did not wait: %v", err)
	}

	// A handler that panics has answered Fail, as a node's has.
	panicking := func(b *topology.Builder) {
		b.OnDeserializationError(func(topology.ErrorContext, error) topology.Response { panic("boom") })
	}
	d = millracetest.NewDriver(t, selling(t, prices, panicking))
	if e := (*millrace.GlobalRecordError)(nil); !errors.As(millracetest.SendRaw(d, to, unreadable), &e) || e.Offset != 0 {
		t.Errorf("%v", e)
	}

	skipping := func(b *topology.Builder) {
		b.OnDeserializationError(func(topology.ErrorContext, error) topology.Response { return topology.Skip })
	}
	d = millracetest.NewDriver(t, selling(t, prices, skipping))
	millracetest.Send(d, priceList, millracetest.R("pen", int64(3)))
	if err := errors.Join(millracetest.SendRaw(d, to, unreadable), millracetest.SendRaw(d, to, record.Raw{Value: []byte("no key")})); err != nil {
		t.Error(err)
	}
	millracetest.Send(d, sales, millracetest.R("ann", "pen"))
	if got := millracetest.Read(d, totals); len(got) != 1 || got[0].Value != 3 {
		t.Errorf("%v", got)
	}
}
