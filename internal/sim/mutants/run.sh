#!/bin/sh
# Applies each patch of this directory, one at a time, to a copy of the tree, and runs what the patch says must find it:
#
#	Sim: -seeds 40 -first 1          seeds, or with -play a scenario, of the simulator; it ends at the first violation
#	Test: ./store TestThis|TestThat  tests of one package
#
# A patch that does not apply, does not build, or is not found, fails. With names as arguments, only those.
set -eu
cd "$(dirname "$0")/../../.."
here=$PWD/internal/sim/mutants
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 tar cf - | tar xf - -C "$copy"
cd "$copy"

# -trimpath: the next copy finds in the build cache what this one has built.
build() { # package, of a command or with tests
	if [ -n "$sim" ]; then ${GO:-go} build -trimpath -ldflags='-s -w' -o mutant ./internal/sim
	else ${GO:-go} test -c -trimpath -vet=off -ldflags='-s -w' -o mutant "$1"; fi
}

passes() { # package, tests
	# shellcheck disable=SC2086
	if [ -n "$sim" ]; then ./mutant -shrink=false -stop $sim
	else (cd "$1" && "$copy/mutant" -test.count=1 -test.timeout=120s -test.run="^($2)"); fi
}

survivors=0 count=0 began=$(date +%s)
for patch in "$here"/*.patch; do
	name=$(basename "$patch" .patch)
	[ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
	count=$((count + 1)) since=$(date +%s)
	sim=$(sed -n 's/^Sim: //p' "$patch")
	package=$(sed -n 's/^Test: \([^ ]*\) .*/\1/p' "$patch") tests=$(sed -n 's/^Test: [^ ]* //p' "$patch")
	if ! git apply "$patch" || ! build "$package"; then
		echo "mutant $name: cannot be made"
		survivors=$((survivors + 1))
	elif passes "$package" "$tests" >output 2>&1; then
		echo "mutant $name: SURVIVES $sim$package $tests"
		survivors=$((survivors + 1))
	elif ! why=$(grep -m 1 -oE 'VIOLATION: .*|--- FAIL: [^ ]*|panic: .*' output); then
		echo "mutant $name: nothing was violated, and $sim$package $tests does not pass"
		survivors=$((survivors + 1))
	else
		echo "mutant $name: killed in $(($(date +%s) - since)) s: $(echo "$why" | cut -c 1-110)"
	fi
	git apply -R "$patch" || exit 1
done
echo "mutants=$count survivors=$survivors seconds=$(($(date +%s) - began))"
[ "$survivors" -eq 0 ] && [ "$count" -gt 0 ]
