# Everything a person or CI runs on Signalbox. `make help` lists it.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Debian keeps the Postgres programs outside PATH.
export PATH := $(PATH):$(subst $(eval) ,:,$(wildcard /usr/lib/postgresql/*/bin))

TOOL := go tool -modfile=tools/go.mod
GO_BUILD := CGO_ENABLED=0 go build -trimpath
# Packages in which goroutines or processes meet; the race detector needs cgo, so it is used where gcc exists.
RACE := ./db/... ./internal/run/... ./internal/control/... ./internal/feed/... ./internal/loop/... ./handlers/... ./internal/worker/...
TEST_FLAGS ?= -timeout=40m

.PHONY: help setup setup-tests build run selftest test fuzz fuzz-long test-race test-long sim chaos mutants check format format-check vet lint generate generate-check bench screens sbom clean

help: ## list what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | while IFS='|' read -r name text; do printf '  make %-15s %s\n' "$$name" "$$text"; done

setup: ## install missing system packages (Postgres, git, bubblewrap), or say how
	@scripts/setup

setup-tests:
	@scripts/setup --tests

build: ## build bin/signalbox and bin/signalbox-worker
	@mkdir -p bin
	@echo "Building bin/signalbox and bin/signalbox-worker; the first time that takes a few minutes …"
	@$(GO_BUILD) -o bin/ ./cmd/...

run: setup build ## build, then start everything on this machine with a sample task that waits for you
	@exec bin/signalbox dev

selftest: setup build ## walk one whole journey in a throw-away folder and say what happened
	@exec bin/signalbox dev --selftest

# The two programs that tests run under are built once, so that an interrupt reaches them and not a `go run` in front.
.build/cluster: $(shell find internal/dbtest/cluster internal/pgserver -name '*.go' 2>/dev/null)
	@go build -o $@ ./internal/dbtest/cluster
.build/gotest: $(shell find internal/dbtest/gotest -name '*.go' 2>/dev/null)
	@go build -o $@ ./internal/dbtest/gotest

test: setup-tests check build .build/cluster .build/gotest ## set-up, check, then every test against one private Postgres
	@$(MAKE) fuzz
	@$(MAKE) test-race
	@.build/cluster .build/gotest $(TEST_FLAGS) ./...

test-race: .build/cluster .build/gotest ## the packages in which things meet, under the race detector (where gcc exists)
	@if ! command -v gcc >/dev/null; then echo "not exercised: the race detector needs gcc, and there is none"; exit 0; fi; \
	packages=$$(go list $(RACE) 2>/dev/null || true); \
	if [ -z "$$packages" ]; then exit 0; fi; \
	echo "Again under the race detector:"; \
	CGO_ENABLED=1 .build/cluster .build/gotest -race -short $(TEST_FLAGS) $$packages

fuzz: ## every fuzz target for eight seconds
	@scripts/fuzz 8

fuzz-long: ## every fuzz target for a minute
	@scripts/fuzz 60

test-long: setup-tests build .build/cluster .build/gotest ## the larger sizes
	@SIGNALBOX_TEST_LONG=1 .build/cluster .build/gotest -timeout=120m ./...

sim: ## fleets of 10,000 targets with failures, crashes and clock jumps; SIGNALBOX_SIM_SEEDS (1000) says how many
	@go test ./internal/campaign -run '^TestFleet$$' -timeout=24h -fleet.seeds=$${SIGNALBOX_SIM_SEEDS:-1000}

chaos: setup-tests .build/cluster .build/gotest ## servers, workers and Postgres are killed, stopped and confused for SIGNALBOX_CHAOS_MINUTES (20); SIGNALBOX_CHAOS_SEED repeats one
	@SIGNALBOX_CHAOS_MINUTES=$${SIGNALBOX_CHAOS_MINUTES:-20} .build/cluster .build/gotest -v -run '^TestChaos$$' -timeout=$$(( $${SIGNALBOX_CHAOS_MINUTES:-20} + 15 ))m ./internal/e2e

mutants: setup-tests .build/cluster ## break the core in each named way and show which test notices
	@scripts/mutants

check: format-check vet lint generate-check ## formatting, vet, lint, generated files current

format: ## format Go and templ files
	@git ls-files -co --exclude-standard -- '*.go' ':!:**/testdata/**' | xargs -r gofmt -w
	@if git ls-files -co --exclude-standard -- '*.templ' | grep -q .; then $(TOOL) templ fmt web; fi

format-check:
	@echo "check: format"
	@unformatted=$$(git ls-files -co --exclude-standard -- '*.go' ':!:**/testdata/**' | xargs -r gofmt -l); \
	if [ -n "$$unformatted" ]; then printf 'Not formatted (make format repairs it):\n%s\n' "$$unformatted"; exit 1; fi
	@if git ls-files -co --exclude-standard -- '*.templ' | grep -q .; then $(TOOL) templ fmt -fail web; fi

vet:
	@echo "check: vet"
	@go vet ./...

lint:
	@echo "check: staticcheck"
	@$(TOOL) staticcheck ./...

sbom: build ## write the bill of materials of both programs to bin/sbom.cdx.json (CycloneDX 1.6)
	@go run ./internal/sbom bin/signalbox bin/signalbox-worker > bin/sbom.cdx.json
	@echo "bin/sbom.cdx.json: $$(grep -c '"type": "library"' bin/sbom.cdx.json) modules in two programs"

screens: setup-tests .build/cluster .build/gotest ## take the pictures in docs/screens anew
	@SIGNALBOX_SCREENS=1 .build/cluster .build/gotest -count=1 -run '^TestScreens$$' ./internal/e2e

generate: ## regenerate everything that is generated and committed
	@scripts/generate

generate-check:
	@echo "check: generated files are current"
	@scripts/generate --check

bench: setup build ## print rates and latencies beside a bare pgbench of the same statements
	@go test -run '^$$' -bench . -benchtime 1x -timeout 60m ./internal/bench
	@go test -run '^$$' -bench . ./internal/campaign
	@SIGNALBOX_TEST_LONG=1 go test -run '^(TestManyViewersMissNothing|TestPagesStandStill|TestLargePagesDoNotFreeze)$$' -count=1 -p 1 -parallel 1 -v ./internal/e2e | grep -E '^(U[0-9]|---|FAIL)'

clean: ## remove what was built
	@rm -rf bin .build
