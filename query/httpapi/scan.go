package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

const (
	// defaultLimit and maxLimit are entries per answer.
	defaultLimit = 100
	maxLimit     = 5_000
	// maxLooks is how many pages of the store's one answer is made of. Each takes 20 ms at most and may be empty, if there
	// are many windows that are not asked for between those that are.
	maxLooks = 100
)

// entry is one entry of a scan. Start and End are there for windows and sessions.
type entry struct {
	Key       string `json:"key"`
	Start     *int64 `json:"start,omitempty"`
	End       *int64 `json:"end,omitempty"`
	Value     string `json:"value"`
	Timestamp int64  `json:"timestamp"`
	Partition int32  `json:"partition"`
}

// page is the answer to a scan: entries, and where to go on if there may be more.
type page struct {
	Entries  []entry  `json:"entries"`
	Position []offset `json:"position,omitempty"`
	// Next is the path and query of the next page.
	Next string `json:"next,omitempty"`
}

// scan is one request for a page.
type scan struct {
	store    *Store
	from, to []byte // nil is open; from is included
	through  bool   // to is too
	// windows are those that are meant, for a store of windows.
	windows *querypb.Windows
	// home is the key whose partition has all of it; nil if all partitions may have some.
	home    []byte
	reverse bool
	limit   int
	bytes   int
	looks   int
	at      mark
	// partitions are still to be read; the first is at's.
	partitions []int32
	// position is what the replies reflect.
	position record.Position
}

func (h *handler) scan(w http.ResponseWriter, r *http.Request, kind string, known []string, bounds func(*scan, url.Values) error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	store, ok := h.storeOf(w, r, kind)
	if !ok {
		return
	}
	s, err := parseScan(store, r.URL, known, bounds)
	if err != nil {
		fail(w, asInvalid(store, err))
		return
	}
	n, err := h.node.Partitions(ctx, store.Name)
	if err == nil {
		err = s.begin(n)
	}
	if err != nil {
		fail(w, err)
		return
	}
	out, more, err := h.read(ctx, s)
	if err != nil {
		fail(w, err)
		return
	}
	if more {
		values := r.URL.Query()
		values.Set("resume", s.at.text())
		out.Next = r.URL.EscapedPath() + "?" + values.Encode()
	}
	write(w, http.StatusOK, "application/json", out)
}

// asInvalid makes a failure of what is wrong with a request.
func asInvalid(store *Store, err error) error {
	if f := (*query.Failure)(nil); errors.As(err, &f) {
		return f
	}
	return store.invalid(err.Error())
}

// begin puts the partitions in order: those that the marked page has left behind are not in it.
func (s *scan) begin(n int32) error {
	if s.home != nil {
		s.partitions = []int32{record.Partition(s.home, n)}
	} else {
		for p := range n {
			s.partitions = append(s.partitions, p)
		}
	}
	if s.reverse {
		slices.Reverse(s.partitions)
	}
	if !s.at.begun {
		s.at.partition = s.partitions[0]
		return nil
	}
	at := slices.Index(s.partitions, s.at.partition)
	if at < 0 {
		return s.store.invalid(errMark.Error())
	}
	s.partitions = s.partitions[at:]
	return nil
}

// read fills one page, from as many partitions as it takes. A failure behind the first entry, or behind windows that were
// looked at and not asked for, is left for the next page, so that what was read is not lost.
func (h *handler) read(ctx context.Context, s *scan) (out page, more bool, err error) {
	out.Entries, s.position = []entry{}, record.Position{}
	for len(s.partitions) > 0 {
		if len(out.Entries) == s.limit || s.bytes >= MaxAnswerBytes || s.looks == maxLooks {
			break
		}
		end, err := h.look(ctx, s, &out)
		if err != nil && (len(out.Entries) > 0 || s.looks > 0 && s.at.last != nil) {
			break
		}
		if err != nil {
			return out, false, err
		}
		if s.looks++; end {
			s.forward()
		}
	}
	out.Position = asOffsets(query.ToPositions(s.position))
	return out, len(s.partitions) > 0, nil
}

// forward goes to the next partition.
func (s *scan) forward() {
	if s.partitions = s.partitions[1:]; len(s.partitions) > 0 {
		s.at = mark{partition: s.partitions[0], begun: true}
	}
}

// question asks for the next page of the store's.
func (s *scan) question(about *querypb.About) *querypb.Range {
	return &querypb.Range{About: about, From: s.from, To: s.to, ToInclusive: s.through, Windows: s.windows, Reverse: s.reverse,
		LimitEntries: int32(s.limit), Resume: s.at.last}
}

// look reads one page of the store's; end says that the partition has no more.
func (h *handler) look(ctx context.Context, s *scan, out *page) (end bool, err error) {
	partition := s.at.partition // the question must stay as it is
	about := &querypb.About{Store: s.store.Name, Partition: &partition, Epoch: s.at.epoch, Held: s.at.begun, Derived: true, Kind: s.store.Kind}
	if deadline, ok := ctx.Deadline(); ok {
		about.DeadlineMs = deadline.UnixMilli()
	}
	q := s.question(about)
	q.LimitEntries -= int32(len(out.Entries))
	reply, err := h.node.Ask(ctx, q)
	if err != nil {
		return false, err
	}
	got := reply.GetPage()
	if got == nil || got.More && len(got.Entries) == 0 && !s.moves(got.Resume) {
		// A page that promises more, brings nothing and gets nowhere would make the caller turn for ever.
		return false, query.New(query.StoreFailure, s.store.Name, s.at.partition)
	}
	if err := s.take(got, out); err != nil {
		return false, err
	}
	record.MergePosition(s.position, query.FromPositions(reply.GetPosition()))
	s.at.begun, s.at.epoch = true, reply.GetEpoch()
	return !got.More, nil
}

// take formats the entries of a page of the store's, and marks how far it has looked.
func (s *scan) take(got *querypb.Page, out *page) error {
	for _, e := range got.Entries {
		formatted, err := s.format(e)
		if err != nil {
			return query.New(query.StoreFailure, s.store.Name, s.at.partition)
		}
		out.Entries = append(out.Entries, formatted)
		s.bytes += len(e.Key) + len(e.Value)
		s.at.last = present(e.Key)
	}
	if got.More && got.Resume != nil {
		s.at.last = got.Resume
	}
	return nil
}

// moves says that a store which has looked as far as that is behind where it was to begin.
func (s *scan) moves(to []byte) bool {
	if to == nil || s.at.last == nil {
		return to != nil
	}
	c := bytes.Compare(to, s.at.last)
	return c != 0 && c < 0 == s.reverse
}

func (s *scan) format(e *querypb.Entry) (out entry, err error) {
	out = entry{Timestamp: e.Timestamp, Partition: s.at.partition}
	key := present(e.Key)
	if s.windows == nil {
		out.Key, err = s.store.FormatKey(key)
	} else if start, end, ok := s.store.times(key); !ok {
		err = errors.New("the key has no times")
	} else {
		out.Start, out.End = &start, &end
		out.Key, err = s.store.formatRaw(key)
	}
	if err == nil {
		out.Value, err = s.store.FormatValue(present(e.Value))
	}
	return out, err
}

// present turns the nil that the wire makes of empty bytes back into empty bytes.
func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
