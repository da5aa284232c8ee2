package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

const (
	// defaultLimit and maxLimit are entries per answer.
	defaultLimit = 100
	maxLimit     = 5_000
)

// entry is one entry of a scan.
type entry struct {
	Key       string `json:"key"`
	Value     string `json:"value"`
	Timestamp int64  `json:"timestamp"`
	Partition int32  `json:"partition"`
}

// page is the answer to a scan: entries, and where to go on if there may be more.
type page struct {
	Entries []entry `json:"entries"`
	// Next is the path and query of the next page.
	Next string `json:"next,omitempty"`
}

// scan is one request for a page.
type scan struct {
	store      Store
	from, to   []byte // nil is open; from is included
	through    bool   // to is too
	limit      int
	bytes      int
	at         mark
	partitions int32
}

// mark is where a scan goes on.
type mark struct {
	partition int32
	// epoch is the lease that the partition was read under; 0 at its beginning.
	epoch uint64
	// last is the last key that was delivered of the partition; nil at its beginning.
	last []byte
	// begun says that entries were delivered already, of this partition or one before it.
	begun bool
}

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

// all, between and prefix serve the three kinds of scan; their difference is the bounds.
func (h *handler) all(w http.ResponseWriter, r *http.Request) { h.scan(w, r, "limit", "resume") }

func (h *handler) between(w http.ResponseWriter, r *http.Request) {
	h.scan(w, r, "from", "to", "limit", "resume")
}

func (h *handler) prefix(w http.ResponseWriter, r *http.Request) {
	h.scan(w, r, "prefix", "limit", "resume")
}

func (h *handler) scan(w http.ResponseWriter, r *http.Request, known ...string) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	store, ok := h.store(w, r)
	if !ok {
		return
	}
	s, err := parseScan(store, r.URL, known)
	if err != nil {
		fail(w, query.Invalid(store.Name, query.NoPartition, err.Error()))
		return
	}
	if s.partitions, err = h.node.Partitions(ctx, store.Name); err != nil {
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

// parameters reads the query part of a URL. A name that is not known is an error: a misspelt bound would be an open one.
func parameters(u *url.URL, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the query part of the URL cannot be read: %w", err)
	}
	for name := range values {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no parameter %q: use %v", name, known)
		}
	}
	return values, nil
}

func parseScan(store Store, u *url.URL, known []string) (*scan, error) {
	values, err := parameters(u, known...)
	if err != nil {
		return nil, err
	}
	s := &scan{store: store, limit: defaultLimit}
	var prefix []byte
	for name, bound := range map[string]*[]byte{"from": &s.from, "to": &s.to, "prefix": &prefix} {
		if !values.Has(name) {
			continue
		}
		if *bound, err = store.ParseKey(values.Get(name)); err != nil {
			return nil, fmt.Errorf("%s is no key of this store: %w", name, err)
		}
	}
	s.through = s.to != nil
	if values.Has("prefix") {
		s.from, s.to = prefix, query.PrefixEnd(prefix)
	} else if slices.Contains(known, "prefix") {
		return nil, errors.New("it needs a prefix: use all for every key")
	}
	if text := values.Get("limit"); values.Has("limit") {
		if s.limit, err = strconv.Atoi(text); err != nil || s.limit < 1 || s.limit > maxLimit {
			return nil, fmt.Errorf("limit %q is not a number from 1 to %d", text, maxLimit)
		}
	}
	if values.Has("resume") {
		s.at, err = parseMark(values.Get("resume"))
	}
	return s, err
}

// read fills one page, from as many partitions as it takes. A failure behind the first entry is left for the next page, so
// that what was read is not lost.
func (h *handler) read(ctx context.Context, s *scan) (out page, more bool, err error) {
	out.Entries = []entry{}
	for s.at.partition < s.partitions {
		if len(out.Entries) == s.limit || s.bytes >= MaxAnswerBytes {
			return out, true, nil
		}
		end, err := h.readPartition(ctx, s, &out)
		if err != nil && len(out.Entries) > 0 {
			return out, true, nil
		}
		if err != nil {
			return out, false, err
		}
		if end {
			s.at = mark{partition: s.at.partition + 1, begun: true}
		}
	}
	return out, false, nil
}

// readPartition reads one page of the store's; end says that the partition has no more.
func (h *handler) readPartition(ctx context.Context, s *scan, out *page) (end bool, err error) {
	p := s.at.partition
	about := &querypb.About{Store: s.store.Name, Partition: &p, Epoch: s.at.epoch, Held: s.at.begun}
	if deadline, ok := ctx.Deadline(); ok {
		about.DeadlineMs = deadline.UnixMilli()
	}
	reply, err := h.node.Ask(ctx, &querypb.Range{About: about, From: s.from, To: s.to, ToInclusive: s.through,
		LimitEntries: int32(s.limit - len(out.Entries)), Resume: s.at.last})
	if err != nil {
		return false, err
	}
	got := reply.GetPage()
	if got == nil || got.More && len(got.Entries) == 0 {
		return false, query.New(query.StoreFailure, s.store.Name, p)
	}
	for _, e := range got.Entries {
		formatted, err := s.format(e, p)
		if err != nil {
			return false, query.New(query.StoreFailure, s.store.Name, p)
		}
		out.Entries = append(out.Entries, formatted)
		s.bytes += len(e.Key) + len(e.Value)
		s.at.last = present(e.Key)
	}
	s.at.begun, s.at.epoch = true, reply.GetEpoch()
	return !got.More, nil
}

func (s *scan) format(e *querypb.Entry, partition int32) (out entry, err error) {
	key, err := s.store.FormatKey(present(e.Key))
	if err != nil {
		return out, err
	}
	value, err := s.store.FormatValue(present(e.Value))
	return entry{key, value, e.Timestamp, partition}, err
}

// present turns the nil that the wire makes of empty bytes back into empty bytes.
func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
