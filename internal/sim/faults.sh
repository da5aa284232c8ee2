#!/bin/sh
# Runs the scenarios of one row of the fault table in docs/reliability.md, or of all that need no Java: faults.sh [row].
# SEEDS is how many seeds of the simulator a row gets, FLIPS at how many places row 9 damages files, FUZZ how long row 16
# gives each fuzz target, DURATION how long the storm of row 15 lasts.
set -eu
cd "$(dirname "$0")/../.."
go=${GO:-go}

sim() { $go run ./internal/sim -seeds "${SEEDS:-300}" "$@"; }
tests() { # package, tests
	out=$(mktemp) rc=0
	$go test -count=1 -timeout 60m -v -run "^($2)\$" "$1" >"$out" 2>&1 || rc=$?
	grep -vE '^(=== |PASS$)' "$out" || true
	for name in $(echo "$2" | tr '|' ' '); do # go test is content with a name that no test has
		grep -q "^=== RUN  *$name\$" "$out" || { echo "$name has not run"; rc=1; }
	done
	rm -f "$out"
	return $rc
}

row() {
	echo "== row $1"
	case $1 in
	1) sim -kinds broker-restarts ;;
	2) sim -kinds group-coordinator-moves,transaction-coordinator-moves,leader-moves
	   tests . 'TestH14CoordinatorsMoveAndProcessingGoesOn' ;;
	3) sim -kinds rebalance,member-added,member-removed ;;
	4) sim -kinds pause-session ;;
	5) sim -kinds transaction-timeout,commit-races-abort,reply-lost,late-request,slow-request,request-lost,connections-cut ;;
	6) sim -kinds crash ;;
	7) sim -kinds crash,crash-unsynced
	   tests ./store 'TestCrashNeverTearsDataFromItsOffset|TestBulkRestoreThatCrashesKeepsDataAndOffsetTogether' ;;
	8) sim -kinds disk-full,disk-error
	   tests . 'TestRealDiskRunsFullAndHasSpaceAgain|TestRealDiskRunsFullAndIsWaitedFor' ;;
	9) sim -kinds disk-damaged
	   MILLRACE_TEST_FLIPS=${FLIPS:-10000} tests ./store 'TestDamageAnywhereNeverGivesAWrongValue' ;;
	10) sim -kinds disk-slow
	    tests ./store 'TestStuckDiskEndsInTheDeadline' ;;
	11) sim -kinds clock-jump,pause,pause-session ;;
	12) tests . 'TestPoisonIsDeadLetteredInItsTransaction|TestQuarantineLeavesTheOthersAlone|TestOperatorPassesARecord'
	    $go test -run '^$' -bench OthersInQuarantine -benchtime 5x . ;;
	13) sim -kinds user-error,user-panic
	    tests . 'TestPanicIsASupervisedRestart|TestH17PoisonRecordEndsTheNodeWithItsCoordinates' ;;
	14) sim -kinds query-flood
	    tests ./actors 'TestMillionQuestionsToOneMailbox'
	    tests . 'TestMillionQuestionsToOneStore' ;;
	15) $go run ./internal/storm -duration "${DURATION:-1m}" -least "${LEAST:-1000}" ;;
	16) tests ./query/httpapi 'TestTooManyRequestsAreRefused|TestAnswersAreBounded|TestHugeRequestsAreRefused|TestSlowClientsAreCutOff'
	    tests ./query/remote 'TestNothingButQuestionsComesIn|TestBrokenStreamsEnd|TestTooManyRefusalsEndTheStream|TestQuestionsAreAdmitted|TestGreedyPeersHoldNothing'
	    GO="$go" FUZZTIME="${FUZZ:-10s}" NAMES='^\./(query|query/remote|query/httpapi|store) ' internal/fuzz.sh ;;
	17) sim -kinds changelogs-compacted
	    tests ./store 'TestRestoreDecisions|TestRestoreBehindTheLogDiscardsOnceAndGoesOn|TestRestoreThatRetentionOvertakesOnceGoesOnAndTwiceGivesUp|TestRestoreOfOldStateStartsAgain'
	    tests . 'TestH7EmptiedChangelogIsAnEmptyStore|TestH15OnePartitionFallsOutOfItsLog' ;;
	19) sim ;;
	*) echo "there is no row $1 here: 1 to 17, or 19" >&2; return 2 ;;
	esac
}

if [ $# -gt 0 ]; then
	for n; do row "$n"; done
else
	for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 16 17 19; do row "$n"; done
fi
