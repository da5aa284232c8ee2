package query

import (
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
)

// Progressed is how far a restore is, for a person: "61 % of 2,000,000 records". Markers and compacted gaps count as
// records.
func Progressed(p lifecycle.Progress) string {
	total := p.Restored + p.Remaining
	percent := int64(100)
	if total > 0 {
		// Floats, because a hundred times an offset may not fit; rounded down, so that 100 % means done.
		percent = int64(100 * (float64(p.Restored) / float64(total)))
	}
	return strconv.FormatInt(percent, 10) + " % of " + grouped(total) + " records"
}

// Estimate is how long a restore will take yet if it goes on as fast as it went; 0 if that cannot be told.
func Estimate(p lifecycle.Progress, now time.Time) time.Duration {
	took := now.Sub(p.Started)
	if p.Started.IsZero() || p.Restored <= 0 || p.Remaining <= 0 || took <= 0 {
		return 0
	}
	return time.Duration(min(float64(took)/float64(p.Restored)*float64(p.Remaining), float64(maxEstimate)))
}

// maxEstimate keeps an estimate from the first moments of a restore from being nonsense.
const maxEstimate = 7 * 24 * time.Hour

// grouped writes n with a comma between thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// rough writes a time as a person would say it.
func rough(d time.Duration) string {
	switch {
	case d < time.Second:
		return "1 s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Round(time.Second)/time.Second)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Round(time.Minute)/time.Minute)) + " min"
	}
	return strconv.Itoa(int(d.Round(time.Hour)/time.Hour)) + " h"
}
