#!/bin/sh
# Gives every fuzz target of the tree a time, one after the other, and prints a row for each: how long it had, how many inputs it has
# tried, how many of them led somewhere new, and whether one was found that breaks the promise. Such an input is in the package's
# testdata/fuzz then, where go test tries it from then on.
#
# FUZZTIME is the time for each (10s), NAMES a regular expression that picks targets, WORKERS how many processes try at a time (2).
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go} rc=0

targets() { # "package target" lines, from the tests of the tree
	git ls-files --cached --others --exclude-standard '*_test.go' | xargs grep -E '^func Fuzz[A-Z]' |
		sed -E 's|^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]+).*|./\1 \2|; s|^[^/]*:func (Fuzz[A-Za-z0-9_]+).*|. \1|' | sort -u
}

out=$(mktemp)
trap 'rm -f "$out"' EXIT
printf '%-22s %-32s %8s %10s %5s  %s\n' package target time inputs new found
targets >"$out.list"
while read -r package target; do
	echo "$package $target" | grep -qE "${NAMES:-.}" || continue
	found=none
	$go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" -fuzzminimizetime 5s -parallel "${WORKERS:-2}" "$package" >"$out" 2>&1 </dev/null || found=BROKEN
	# Go fails so when the time is over while an input is made smaller that leads somewhere new. One that breaks something is written.
	if grep -qx ' *context deadline exceeded' "$out" && ! grep -q 'Failing input written' "$out"; then found=none; fi
	last=$(grep -E '^fuzz: elapsed: .*execs' "$out" | tail -1)
	printf '%-22s %-32s %8s %10s %5s  %s\n' "$package" "$target" "$(echo "$last" | sed -E 's/.*elapsed: ([0-9hms]+),.*/\1/')" \
		"$(echo "$last" | sed -E 's/.*execs: ([0-9]+).*/\1/')" "$(echo "$last" | sed -E 's/.*new interesting: ([0-9]+).*/\1/')" "$found"
	if [ $found != none ]; then
		rc=1
		cat "$out"
	fi
done <"$out.list"
rm -f "$out.list"
exit $rc
