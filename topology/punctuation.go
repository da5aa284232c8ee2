package topology

// PunctuationType is the clock of a punctuation.
type PunctuationType int

// The clocks.
const (
	StreamTime PunctuationType = iota
	WallClock
)

type punctuation struct {
	node           string
	clock          PunctuationType
	next, interval int64
	f              func(int64) error
	cancelled      bool
}

func (in *Instance) schedule(node string, interval int64, t PunctuationType, f func(int64) error) func() {
	p := &punctuation{node: node, clock: t, interval: interval, f: f}
	switch {
	case t == WallClock:
		p.next = in.host.WallClock() + interval
	case in.from >= 0:
		// The task starts again, after a restart or a rewind: up to its stream time it has punctuated, and that is
		// committed. To begin at 0 would do the last one again.
		p.next = (in.from/interval + 1) * interval
	}
	in.due = append(in.due, p)
	return func() { p.cancelled = true }
}

// Punctuate calls what is due at the two times, in milliseconds, earliest first; each at most once. A stream time
// below 0 is "no data yet". It ends at the first error of one of them.
func (in *Instance) Punctuate(streamTime, wallClock int64) error {
	if err := in.punctuate(StreamTime, streamTime); err != nil {
		return err
	}
	return in.punctuate(WallClock, wallClock)
}

func (in *Instance) punctuate(t PunctuationType, now int64) error {
	for now >= 0 {
		p := in.earliest(t)
		if p == nil || p.next > now {
			return nil
		}
		// Before the call, as the function may fail: next is the first multiple after now, so that a gap in stream
		// time or a long pause fires once and not once per interval.
		p.next += p.interval * ((now-p.next)/p.interval + 1)
		in.punctuations++
		if err := p.f(now); err != nil {
			return wrap(p.node, err)
		}
	}
	return nil
}

// PunctuationDue says that Punctuate would call something.
func (in *Instance) PunctuationDue(streamTime, wallClock int64) bool {
	for _, p := range in.due {
		if now := [...]int64{StreamTime: streamTime, WallClock: wallClock}[p.clock]; !p.cancelled && now >= 0 && p.next <= now {
			return true
		}
	}
	return false
}

// Punctuations is how many calls there were.
func (in *Instance) Punctuations() uint64 { return in.punctuations }

func (in *Instance) earliest(t PunctuationType) *punctuation {
	var first *punctuation
	kept := in.due[:0]
	for _, p := range in.due {
		if p.cancelled {
			continue
		}
		kept = append(kept, p)
		if p.clock == t && (first == nil || p.next < first.next) {
			first = p
		}
	}
	in.due = kept
	return first
}

// NextWallClock is when the next wall clock punctuation is due, in milliseconds since the Unix epoch.
func (in *Instance) NextWallClock() (int64, bool) {
	if p := in.earliest(WallClock); p != nil {
		return p.next, true
	}
	return 0, false
}
