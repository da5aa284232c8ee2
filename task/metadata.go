package task

import (
	"strconv"
	"strings"
)

// Metadata is what a task keeps beside a committed offset. As text it is these fields after a format version, with a bar
// between them.
type Metadata struct {
	// PartitionTime is the highest timestamp that was processed from the partition, in milliseconds since the Unix epoch;
	// -1 if there was none. It brings stream time back after a restart or a move.
	PartitionTime int64
	// TransactionalID and Transaction name the transaction that committed the offset: they tell whether a commit whose
	// answer was lost has happened, and whom a new owner must fence. Both are empty at least once.
	TransactionalID string
	Transaction     uint64
}

// Stamp names one transaction of one producer. The zero Stamp is none: at least once.
type Stamp struct {
	TransactionalID string
	Number          uint64
}

const metadataVersion = "1"

// String encodes m. Transactional ids hold what Kafka allows in them; a bar is one of those, so the id comes last.
func (m Metadata) String() string {
	b := make([]byte, 0, 32+len(m.TransactionalID))
	b = append(b, metadataVersion...)
	b = strconv.AppendInt(append(b, '|'), m.PartitionTime, 10)
	b = strconv.AppendUint(append(b, '|'), m.Transaction, 10)
	b = append(b, '|')
	return string(append(b, m.TransactionalID...))
}

// ParseMetadata reads what String wrote. Text that is not ours (of a Java application, of a tool that reset the group, of
// a newer version) is no error: ok is false and PartitionTime -1.
func ParseMetadata(text string) (m Metadata, ok bool) {
	none := Metadata{PartitionTime: -1}
	f := strings.SplitN(text, "|", 4)
	if len(f) != 4 || f[0] != metadataVersion {
		return none, false
	}
	time, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return none, false
	}
	n, err := strconv.ParseUint(f[2], 10, 64)
	if err != nil {
		return none, false
	}
	return Metadata{PartitionTime: time, TransactionalID: f[3], Transaction: n}, true
}
