#!/bin/sh
# Applies each patch of this directory, one at a time, to a copy of the tree, and runs the simulator as the patch says. A patch
# that does not apply, does not build, or lets the simulator find nothing, fails. With names as arguments, only those.
set -eu
cd "$(dirname "$0")/../../.."
here=$PWD/internal/sim/mutants
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 tar cf - | tar xf - -C "$copy"
cd "$copy"
survivors=0 count=0 began=$(date +%s)
for patch in "$here"/*.patch; do
	name=$(basename "$patch" .patch)
	[ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
	count=$((count + 1))
	args=$(sed -n 's/^Sim: //p' "$patch")
	if ! git apply "$patch" || ! ${GO:-go} build -ldflags=-s -o mutant ./internal/sim; then
		echo "mutant $name: cannot be made"
		survivors=$((survivors + 1))
	# shellcheck disable=SC2086
	elif ./mutant -shrink=false $args >output 2>&1; then
		echo "mutant $name: SURVIVES $args"
		survivors=$((survivors + 1))
	else
		echo "mutant $name: killed: $(grep -m 1 -o 'VIOLATION: .*' output | cut -c 1-110)"
	fi
	git apply -R "$patch" || exit 1
done
echo "mutants=$count survivors=$survivors seconds=$(($(date +%s) - began))"
[ "$survivors" -eq 0 ] && [ "$count" -gt 0 ]
