package query

import (
	"bytes"
	"fmt"

	"github.com/millrace-io/millrace/query/querypb"
)

// Mistake says what is wrong with a question in itself, whoever is asked, or nothing. Gates and stores refuse it with
// InvalidQuery and this text.
func Mistake(q Question) string {
	if m := aboutMistake(q.GetAbout()); m != "" {
		return m
	}
	switch q := q.(type) {
	case *querypb.Get:
		if q.Key == nil {
			return "a Get needs a key"
		}
		return keyMistake(q.Key)
	case *querypb.GetMany:
		return keysMistake(q.Keys)
	case *querypb.Range:
		return rangeMistake(q)
	case *querypb.Locate:
		return keyMistake(q.Key)
	}
	return ""
}

func aboutMistake(a *querypb.About) string {
	switch {
	case a == nil:
	case len(a.AtLeast) > MaxPositions:
		return fmt.Sprintf("it names %d positions, and the limit is %d", len(a.AtLeast), MaxPositions)
	case a.DeadlineMs < 0 || a.TimeoutMs < 0:
		return "its deadline is negative"
	case a.MaxLag != nil && *a.MaxLag < 0:
		return "its max_lag is negative"
	}
	return ""
}

func keyMistake(key []byte) string {
	if len(key) > MaxKeyBytes {
		return fmt.Sprintf("a key has %d bytes, and the limit is %d", len(key), MaxKeyBytes)
	}
	return ""
}

func keysMistake(keys [][]byte) string {
	if len(keys) == 0 {
		return "a GetMany needs a key"
	}
	if len(keys) > MaxKeys {
		return fmt.Sprintf("it asks for %d keys, and the limit is %d", len(keys), MaxKeys)
	}
	size := 0
	for _, k := range keys {
		size += len(k)
	}
	// One key alone may be as long as that of a Get, so that the typed client can always ask.
	if len(keys) > 1 && size > MaxKeysBytes {
		return fmt.Sprintf("its keys have %d bytes, and the limit is %d", size, MaxKeysBytes)
	}
	return keyMistake(keys[0])
}

func rangeMistake(q *querypb.Range) string {
	if q.LimitEntries < 0 || q.LimitBytes < 0 {
		return "the limit of its page is negative"
	}
	if q.From != nil && q.To != nil && bytes.Compare(q.From, q.To) > 0 {
		return "the range's from is after its to"
	}
	for _, k := range [...][]byte{q.From, q.To, q.Resume} {
		if m := keyMistake(k); m != "" {
			return m
		}
	}
	return ""
}
