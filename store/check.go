package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/record"
)

// checkErrorsMax bounds what Check reports: one damaged file makes many errors.
const checkErrorsMax = 20

// Check reads everything and compares it with what must be true: the engine's own invariants hold, every key belongs to
// a store of the registry or is one of the task's own, every key of a window or session store ends with its times, every
// value can be read, offsets, times and position can be read and are those in memory, and a store with a changelog has entries only together with an offset. It joins what it finds (at most
// 20 errors) and takes as long as a full read. Nothing must be applied meanwhile.
func (t *TaskState) Check() error {
	return t.engine.run("check", func() error {
		if err := t.engine.db.CheckLevels(nil); err != nil {
			return err
		}
		it, err := t.engine.db.NewIter(nil)
		if err != nil {
			return err
		}
		c := checker{t: t, seen: map[uint16]int{}}
		for valid := it.First(); valid && len(c.errs) < checkErrorsMax; valid = it.Next() {
			c.entry(it)
		}
		c.found(it.Error())
		c.whole()
		return errors.Join(append(c.errs, it.Close())...)
	})
}

type checker struct {
	t    *TaskState
	errs []error
	seen map[uint16]int
}

func (c *checker) found(err error) {
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

func (c *checker) entry(it *pebble.Iterator) {
	key := it.Key()
	value, err := it.ValueAndErr()
	if err != nil {
		c.found(err)
		return
	}
	if len(key) < numberBytes {
		c.found(fmt.Errorf("store: key %x is too short", key))
		return
	}
	number := binary.BigEndian.Uint16(key)
	c.seen[number]++
	if number == 0 {
		c.found(c.own(key, value))
		return
	}
	if i := slices.Index(c.t.numbers, number); i < 0 {
		c.found(fmt.Errorf("store: key %x belongs to no store", key))
	} else if spec := &c.t.spec.Stores[i]; spec.InMemory {
		c.found(fmt.Errorf("store: key %x of %q is on disk, and the store is in memory only", key, spec.Name))
	} else if spec.windowed() {
		if _, ok := spec.windowTime(key[numberBytes:]); !ok {
			c.found(fmt.Errorf("store: key %x of %q is not a %s store's", key, spec.Name, spec.Kind))
		}
	}
	_, _, err = splitValue(value)
	c.found(err)
}

// own checks one of the task's own keys against the view.
func (c *checker) own(key, value []byte) error {
	v := c.t.view.Load()
	switch {
	case bytes.Equal(key, keyRegistry):
		_, err := decodeRegistry(c.t.engine.dir, value)
		return err
	case bytes.Equal(key, keyClock):
		return same("clock", value, binary.BigEndian.AppendUint64(nil, uint64(v.clock)))
	case bytes.Equal(key, keyCommit):
		return same("commit", value, binary.BigEndian.AppendUint64(nil, v.commit))
	case bytes.Equal(key, keyPosition):
		return same("position", value, record.EncodePosition(v.position))
	}
	for i, number := range c.t.numbers {
		switch {
		case bytes.Equal(key, keyOffset(number)):
			return same("offset", value, v.marks[i].encode())
		case bytes.Equal(key, keyTime(number)):
			return same("time", value, binary.BigEndian.AppendUint64(nil, uint64(v.time(i))))
		}
	}
	return fmt.Errorf("store: key %x is not known", key)
}

func same(what string, disk, memory []byte) error {
	if !bytes.Equal(disk, memory) {
		return fmt.Errorf("store: the %s in the database (%x) is not the one in memory (%x)", what, disk, memory)
	}
	return nil
}

func (c *checker) whole() {
	for i, number := range c.t.numbers {
		_, ok := c.t.view.Load().marks[i]
		if !ok && c.seen[number] > 0 && c.t.spec.Stores[i].Changelog != "" && c.t.spec.Global == "" {
			c.found(fmt.Errorf("store: %q has %d entries and no changelog offset", c.t.spec.Stores[i].Name, c.seen[number]))
		}
	}
	for _, m := range c.t.view.Load().memories {
		c.found(m.check())
	}
	if c.seen[0] == 0 {
		c.found(errors.New("store: there is no registry"))
	}
}
