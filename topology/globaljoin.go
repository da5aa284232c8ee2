package topology

import "github.com/millrace-io/millrace/record"

// JoinGlobal joins each record with the entry of a global store whose key the function key gives for it; ok is false for a
// record that has none. The result has the record's key, timestamp and headers, and the value that join makes of both.
//
// As in Kafka Streams only the stream's records cause results: a change of the table does not. A record is left out if the
// table has no such entry; it is dropped and counted if it has no value ("null value") or key gives none ("null join key").
func JoinGlobal[K, V, L, W, R any](s Stream[K, V], g GlobalStore[L, W], key func(record.Record[K, V]) (key L, ok bool), join func(r record.Record[K, V], entry W) (R, error)) Stream[K, R] {
	need(s, "join-global", key == nil || join == nil)
	return joinGlobal(s, "join-global", g, key, false, func(r record.Record[K, V], entry W, _ bool) (R, error) { return join(r, entry) })
}

// LeftJoinGlobal is JoinGlobal with a result for every record that has a value: found is false if key gives none for it, or
// the table has no such entry. A record without a value is dropped and counted ("null value").
func LeftJoinGlobal[K, V, L, W, R any](s Stream[K, V], g GlobalStore[L, W], key func(record.Record[K, V]) (key L, ok bool), join func(r record.Record[K, V], entry W, found bool) (R, error)) Stream[K, R] {
	need(s, "left-join-global", key == nil || join == nil)
	return joinGlobal(s, "left-join-global", g, key, true, join)
}

// globalJoin is a join at work in one task.
type globalJoin[K, V, L, W, R any] struct {
	node  string
	host  Host
	table *GlobalKeyValue[L, W]
	key   func(record.Record[K, V]) (L, bool)
	left  bool
	join  func(record.Record[K, V], W, bool) (R, error)
	next  handler[K, R]
}

func joinGlobal[K, V, L, W, R any](s Stream[K, V], operator string, g GlobalStore[L, W], key func(record.Record[K, V]) (L, bool), left bool, join func(record.Record[K, V], W, bool) (R, error)) Stream[K, R] {
	n := s.b.add("", operator, operatorKind, s.n)
	s.b.use(n, g)
	n.make = func(in *Instance, n *node) any {
		j := &globalJoin[K, V, L, W, R]{node: n.name, host: in.host, key: key, left: left, join: join, next: outs[K, R](in, n)}
		in.parts[n.index].init = func() error {
			state, err := in.global(g.name)
			j.table = g.open(state)
			return err
		}
		return handler[K, V](j.process)
	}
	return Stream[K, R]{s.b, n}
}

func (j *globalJoin[K, V, L, W, R]) process(r record.Record[K, V]) error {
	if r.NoValue {
		j.host.Dropped("null value")
		return nil
	}
	var entry W
	found := false
	key, ok := j.key(r)
	if !ok && !j.left {
		j.host.Dropped("null join key")
		return nil
	}
	if ok {
		var err error
		if entry, found, err = j.table.Get(key); err != nil {
			return err
		}
	}
	if !found && !j.left {
		return nil
	}
	value, err := j.join(r, entry, found)
	if err != nil {
		return wrap(j.node, err)
	}
	return j.next(record.WithValue(r, value))
}
