package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
)

// buffers are for answers to point reads, which are many and short.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// jsonType is a header that all answers share; nobody changes it.
var jsonType = []string{"application/json"}

// write answers with the value. It is what write does, without the reflection of encoding/json and most of its memory: a
// test compares the two.
func (v *value) write(w http.ResponseWriter, status int) {
	b := buffers.Get().(*[]byte)
	*b = v.append((*b)[:0])
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	_, _ = w.Write(*b) // the client has gone: nobody to tell
	if cap(*b) <= 64<<10 {
		buffers.Put(b)
	}
}

func (v *value) append(b []byte) []byte {
	b = append(b, `{"found":`...)
	b = strconv.AppendBool(b, v.Found)
	b = appendText(append(b, `,"key":`...), v.Key)
	if v.Value != nil {
		b = appendText(append(b, `,"value":`...), *v.Value)
	}
	if v.Timestamp != 0 {
		b = strconv.AppendInt(append(b, `,"timestamp":`...), v.Timestamp, 10)
	}
	b = strconv.AppendInt(append(b, `,"partition":`...), int64(v.Partition), 10)
	for i, o := range v.Position {
		if i == 0 {
			b = append(b, `,"position":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"topic":`...), o.Topic)
		b = strconv.AppendInt(append(b, `,"partition":`...), int64(o.Partition), 10)
		b = append(strconv.AppendInt(append(b, `,"next":`...), o.Next, 10), '}')
	}
	if len(v.Position) > 0 {
		b = append(b, ']')
	}
	return append(b, "}\n"...)
}

// appendText appends a JSON string. What is not plain ASCII is left to encoding/json.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(b, quoted(s)...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always has a form
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
