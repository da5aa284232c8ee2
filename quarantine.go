package millrace

import (
	"time"

	"github.com/millrace-io/millrace/record"
)

// Quarantine says at which record a task fails. Its JSON keys are stable.
type Quarantine struct {
	Source record.TopicPartition `json:"source"`
	Offset int64                 `json:"offset"`
	// Attempts is how often it has failed; Retry is when it is tried again.
	Attempts int       `json:"attempts"`
	Retry    time.Time `json:"retry"`
	// Cause is the text of Err, the last failure.
	Cause string `json:"cause"`
	Err   error  `json:"-"`
}
