# One word for everything that a contributor does. CONTRIBUTING.md says when.

GO ?= go
# Packages of one test run beyond two at a time fight for cores with the brokers that they start.
# -short leaves out what is long and would show the detector nothing new.
RACE_FLAGS := -race -short -tags invariants

.PHONY: all build test check fmt test-kafka bench bench-quick bench-all bench-scale bench-peer bench-compare demo-check

all: build test

build:
	CGO_ENABLED=0 $(GO) build ./...
	CGO_ENABLED=0 $(GO) build -o bin/millrace ./cmd/node

test:
	$(GO) test ./...

fmt:
	gofmt -w $$(git ls-files '*.go')

# Formatting and architecture are tests of internal/lint and run in both modes of the last step.
check:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "run make fmt: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags realkafka ./internal/realkafka/...
	$(GO) vet -tags browser ./page
	$(GO) tool staticcheck ./...
	@$(MAKE) --no-print-directory vulnerabilities
	@$(MAKE) --no-print-directory race

# A machine that cannot reach the vulnerability data skips the check and says so; a vulnerability that is found fails.
.PHONY: vulnerabilities
vulnerabilities:
	@out=$$($(GO) tool govulncheck ./... 2>&1); rc=$$?; \
	if [ $$rc -eq 0 ]; then echo "govulncheck: no known vulnerability is reachable"; \
	elif [ $$rc -eq 3 ]; then echo "$$out"; exit 3; \
	elif echo "$$out" | grep -qiE 'vuln\.go\.dev|fetching vulnerabilities|no such host|connection refused|i/o timeout|forbidden|not found'; then \
	  echo "govulncheck: skipped, the vulnerability data cannot be reached from here"; \
	else echo "$$out"; exit $$rc; fi

# The race detector needs a C compiler; without one the same tests run without it. CI requires the compiler. What reads the
# source, package lint, has one goroutine.
.PHONY: race
race:
	@if command -v "$$($(GO) env CC)" >/dev/null 2>&1; then \
	  echo "$(GO) test $(RACE_FLAGS) ./... but internal/lint"; \
	  CGO_ENABLED=1 $(GO) test $(RACE_FLAGS) $$($(GO) list ./... | grep -v /internal/lint); \
	else \
	  echo "no C compiler here: the race detector is left out, the tests run with the invariants tag alone"; \
	  $(GO) test -tags invariants ./...; \
	fi

test-kafka:
	@if command -v java >/dev/null 2>&1 && command -v mvn >/dev/null 2>&1; then \
	  $(GO) test -tags realkafka -count=1 -timeout 20m -v ./internal/realkafka/...; \
	else \
	  echo "real Kafka is not available here: Java 17 and Maven are needed to start it"; \
	fi

# Fifteen minutes at most: keyed count, word count and pass-through, exactly once.
bench:
	$(GO) run ./bench $(BENCH_FLAGS)

bench-quick:
	$(GO) run ./bench -quick -jobs matrix $(BENCH_FLAGS)

# The whole matrix, about a quarter of an hour a repetition. A run that was interrupted goes on where it stopped; BENCH_FLAGS='-redo count/' runs cells again.
bench-all:
	$(GO) run ./bench -jobs matrix -guarantees at_least_once,exactly_once -caching on,off -resume -results bench/results/matrix.json $(BENCH_FLAGS)

# What a record costs against the number of keys and partitions and the size of values.
bench-scale:
	$(GO) run ./bench -jobs scale -systems kafka-streams,millrace -resume -results bench/results/scale.json $(BENCH_FLAGS)

# Our Kafka Streams program against another one: DIR has its src/Peer.java.
bench-peer:
	$(GO) run ./bench -systems kafka-streams -shared $(DIR) -results bench/results/peer.json $(BENCH_FLAGS)

# The micro-benchmarks of commit REF against the working directory's, run in turn, through benchstat.
bench-compare:
	$(GO) run ./bench/compare -ref "$(REF)" $(BENCH_FLAGS)

demo-check:
	cli/demo-check.sh

# Takes nodes and brokers down while records come, and checks that each counted once; needs Java 17 and Maven.
.PHONY: chaos
CYCLES ?= 5
chaos:
	$(GO) run ./internal/chaos -cycles $(CYCLES) $(if $(SEED),-seed $(SEED)) $(if $(FILE),-file $(FILE)) $(CHAOS_FLAGS)

# Restarts three nodes on real Kafka one after the other, under load and while every partition is asked; needs Java 17 and Maven.
.PHONY: rolling
RESTARTS ?= 3
rolling:
	$(GO) run ./internal/chaos -rolling -cycles $(RESTARTS) -brokers 1 $(if $(SEED),-seed $(SEED)) $(ROLLING_FLAGS)

# Asks three nodes on real Kafka while partitions move and a node dies, and checks every answer; needs Java 17 and Maven.
.PHONY: storm
DURATION ?= 20s
storm:
	$(GO) run ./internal/storm -duration $(DURATION) $(STORM_FLAGS)

# Runs clusters on one goroutine from seeds, with faults everywhere; exits with 1 if one seed breaks a promise or a kind of
# fault never fired. SEED is the first of SEEDS; one seed is the same run for ever.
.PHONY: sim
SEEDS ?= 100
sim:
	$(GO) run ./internal/sim -seeds $(SEEDS) $(if $(SEED),-first $(SEED)) $(SIM_FLAGS)

# Applies seeded bugs, one at a time, to a copy of the tree; the simulator or a test has to find each. NAMES picks some of them.
.PHONY: mutants
mutants:
	GO=$(GO) internal/sim/mutants/run.sh $(NAMES)

# Runs the simulator, chaos and storms in turn and adds up in FILE what they tell. It can be stopped and goes on where it was;
# it exits with 1 if the file holds a violation. FOR=8h ends it after a while; PARTS=sim needs no Java.
.PHONY: soak
soak:
	$(GO) run ./internal/soak -file $(or $(FILE),soak.json) $(if $(FOR),-for $(FOR)) $(if $(PARTS),-parts $(PARTS)) $(SOAK_FLAGS)

# Gives every fuzz target of the tree FUZZTIME, one after the other, and prints what each has tried; NAMES picks some of them.
.PHONY: fuzz
FUZZTIME ?= 10s
fuzz:
	GO="$(GO)" FUZZTIME="$(FUZZTIME)" NAMES="$(NAMES)" internal/fuzz.sh

# Runs the scenarios of one row of the fault table in docs/reliability.md: make faults ROW=9; without ROW, all but the storm.
.PHONY: faults
faults:
	GO=$(GO) internal/sim/faults.sh $(ROW)

# Looks at a node's live page in a real Chromium: a thread dies, and the page shows it. Without a browser it is skipped and says so;
# MILLRACE_BROWSER names one that is not in the path. IMAGES=docs/images writes the pictures of docs/page.md anew.
.PHONY: test-page
test-page:
	MILLRACE_IMAGES=$(if $(IMAGES),$(abspath $(IMAGES))) $(GO) test -tags browser -count=1 -timeout 5m -v -run '^TestPageInABrowser$$' ./page
