// Package codec turns keys and values into bytes and back, and into text and back.
//
// Contract of every Codec:
//
//  1. It is called for present bytes only. Kafka's null never reaches a codec; an empty value does and stays empty.
//  2. Encode appends to dst and returns the longer slice; it keeps neither dst nor what it refers to.
//  3. Decode does not change b. It may return a value that shares b's memory (String and Bytes do), because b is a
//     slice of a fetched batch that never changes. Whoever keeps such a value keeps the whole batch: use strings.Clone
//     or bytes.Clone. A codec that never shares says so with a method Copies() bool that returns true; state stores
//     copy the bytes before they decode with any other codec.
//  4. Decode and ParseText return a *Error for input that they refuse, and never panic.
//  5. Decode(Encode(v)) equals v, and ParseText(FormatText(v)) equals v.
//  6. Ordered is true exactly if the byte order of encodings is the order of the values.
//  7. Codecs have no state and may be used from any goroutine.
package codec
