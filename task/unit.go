package task

import (
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// Write is one key of a Unit. A nil Value deletes.
type Write struct {
	Store      int
	Key, Value []byte
	Timestamp  int64
}

// Unit is what one commit moves together: the writes of an interval, sorted by store and key and each key once, and the
// positions that they bring the task to. It shares no memory with the task.
type Unit struct {
	Task   record.TaskID
	Writes []Write
	// Offsets are the positions of all source partitions of the task, unchanged ones too.
	Offsets broker.Offsets
	// Changelogs are the numbers of the stores that wrote changelog records.
	Changelogs []int
	Position   record.Position
	// WallClock is when the unit was prepared, in milliseconds since the Unix epoch.
	WallClock int64
	arena     []byte
}

// grow makes room for copies of cells, so that copying does not move what is there already.
func (u *Unit) grow(cells []*topology.Cell) {
	n := 0
	for _, c := range cells {
		n += len(c.Key) + len(c.Value)
	}
	u.arena = make([]byte, 0, n)
	if u.Writes == nil {
		u.Writes = make([]Write, 0, len(cells))
	}
}

func (u *Unit) copy(b []byte) []byte {
	at := len(u.arena)
	u.arena = append(u.arena, b...)
	return u.arena[at:len(u.arena):len(u.arena)]
}

// The metadata of a committed offset is four fields with a bar between them: format version 1, partition time in
// milliseconds, transactional id, transaction number. The last two are empty at least once; a transaction that is resolved
// later is told by them.
const metadataVersion = "1"

// Metadata writes the metadata of a committed offset.
func Metadata(partitionTime int64) string {
	return metadataVersion + "|" + strconv.FormatInt(partitionTime, 10) + "||"
}

// PartitionTime reads the partition time from an offset's metadata; -1 if the metadata is not ours.
func PartitionTime(metadata string) int64 {
	f := strings.Split(metadata, "|")
	if len(f) < 4 || f[0] != metadataVersion {
		return -1
	}
	t, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return -1
	}
	return t
}
