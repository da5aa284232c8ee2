package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
)

// mark is where a scan goes on.
type mark struct {
	partition int32
	// epoch is the lease that the partition was read under; 0 at its beginning.
	epoch uint64
	// last is the key that the partition was read up to; nil at its beginning.
	last []byte
	// begun says that entries were delivered already, of this partition or one before it.
	begun bool
}

// text is the mark as callers carry it: the base64url of partition, epoch, and 1 and the key if there is one.
func (m mark) text() string {
	b := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(m.partition)), m.epoch)
	if m.last != nil {
		b = append(append(b, 1), m.last...)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

var errMark = errors.New("resume is not what an earlier answer gave: take it from its next, or leave it out to begin anew")

func parseMark(text string) (m mark, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return m, errMark
	}
	partition, n := binary.Uvarint(b)
	if n <= 0 || partition > 1<<31-1 {
		return m, errMark
	}
	epoch, k := binary.Uvarint(b[n:])
	if k <= 0 {
		return m, errMark
	}
	m = mark{partition: int32(partition), epoch: epoch, begun: true}
	if b = b[n+k:]; len(b) > 0 {
		if b[0] != 1 {
			return m, errMark
		}
		m.last = b[1:]
	}
	return m, nil
}
