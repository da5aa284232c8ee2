// Package text cuts text as the demo of Millrace does: a source into lines, a line into words.
//
// What a caller may rely on:
//
//  1. A word is a maximal run of ASCII letters, lower-cased. Every other byte separates words, valid UTF-8 or not.
//  2. A line ends with a newline, with a carriage return and a newline, or with the end of the source. Neither is part
//     of the line's text. A last line without a newline counts; an empty line is a line.
//  3. A line that is longer than the limit comes in parts, none longer than the limit. A part never ends inside a word,
//     and not inside a UTF-8 character either if there is any ASCII byte that is not a letter to cut behind.
//  4. The text is handed on byte for byte: bytes that are not UTF-8 survive.
//  5. The same source is cut in the same way every time, so a line's number and part name it.
package text
