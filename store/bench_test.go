package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/millrace-io/millrace/record"
)

const benchKeys = 60_000

func benchUnit() *Unit {
	u := &Unit{Position: record.Position{source: 1}}
	value := binary.BigEndian.AppendUint64(nil, 7)
	for i := range benchKeys {
		u.Writes = append(u.Writes, Write{Key: fmt.Appendf(nil, "word-%07d", i), Value: value, Timestamp: 1})
	}
	return u
}

func benchState(b *testing.B) (*Directory, *TaskState) {
	d, err := OpenDirectory(b.TempDir(), "app", DirectoryOptions{})
	if err != nil {
		b.Fatal(err)
	}
	s, _ := openTask(b, d, testSpec())
	return d, s
}

func BenchmarkStorePut(b *testing.B) {
	d, s := benchState(b)
	defer closeDir(b, d)
	u := benchUnit()
	b.ReportAllocs()
	for next := int64(1); b.Loop(); next++ {
		u.Changelog = []StoreOffset{{0, next}}
		apply(b, s, u)
	}
}

func BenchmarkStoreGet(b *testing.B) {
	d, s := benchState(b)
	defer closeDir(b, d)
	u := benchUnit()
	apply(b, s, u)
	if err := s.Flush(); err != nil {
		b.Fatal(err)
	}
	absent := []byte("word-absent")
	for name, key := range map[string]func(int) []byte{
		"present": func(i int) []byte { return u.Writes[i*7919%benchKeys].Key },
		"absent":  func(int) []byte { return absent },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, _, _, err := s.Get(0, key(i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkScan60k(b *testing.B) {
	d, s := benchState(b)
	defer closeDir(b, d)
	apply(b, s, benchUnit())
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range s.Scan(0, nil, nil, false) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != benchKeys {
			b.Fatal(n)
		}
	}
}

func BenchmarkLease(b *testing.B) {
	l := newLease()
	for b.Loop() {
		l.acquire()
		l.release()
	}
}

func BenchmarkRestore(b *testing.B) {
	l := newLog(0, 0)
	l.fill(300_000, 100_000)
	l.batch = 2000
	for b.Loop() {
		d, s := benchState(b)
		if _, err := Restore(context.Background(), s, 0, l, nil); err != nil {
			b.Fatal(err)
		}
		closeDir(b, d)
	}
	b.ReportMetric(float64(300_000*b.N)/b.Elapsed().Seconds(), "records/s")
}
