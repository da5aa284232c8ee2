#!/bin/sh
# Counts the words of a source tree twice, with millrace and with tr, sort and uniq, and compares byte for byte.
#
#   cli/demo-check.sh [DIR]      DIR is Go's own sources unless given
#
# Each file is taken by itself: a newline between files keeps the last word of one from running into the next. Files with
# a NUL among their first 8192 bytes are no text for millrace, so they are left out here too.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
dir=${1:-$(go env GOROOT)/src}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

CGO_ENABLED=0 go build -o "$work/millrace" ./cmd/node
began=$(date +%s)
"$work/millrace" dev --once --input "$dir" >"$work/got"
echo "millrace took $(($(date +%s) - began)) s"

find "$dir" -type f | sort | while IFS= read -r file; do
	if [ "$(head -c 8192 "$file" | tr -dc '\0' | head -c 1 | wc -c)" -eq 0 ]; then
		cat "$file"
		echo
	fi
done | tr -cs 'A-Za-z' '\n' | tr 'A-Z' 'a-z' | grep -v '^$' | sort | uniq -c |
	awk '{ print $2 "\t" $1 }' >"$work/want"

[ -s "$work/want" ] || { echo "the reference counted no word of $dir" >&2; exit 1; }
cmp "$work/want" "$work/got"
echo "$(wc -l <"$work/got") words of $dir agree byte for byte"
