.DEFAULT_GOAL := help
.PHONY: help check test test-all bench fuzz seeds lint profile

FUZZTIME ?= 30s
SEEDS ?= 10000
BENCH ?= .

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Long tests have a short form here and in any go test without EFACTOR_TEST_ALL=1, and fuzz targets run
# their seeds; .ci/run runs everything in full, and fuzzes.
check: ## everything a change must pass, in some five minutes on two cores
	.ci/lint
	go mod tidy -diff
	go vet ./...
	go test -race -short -shuffle=on ./...
	for dir in $$(.ci/modules --nested); do (cd $$dir && go mod tidy -diff && go test -race -short -shuffle=on ./...) || exit 1; done

test: ## the tests of the main module that run everywhere, in some two minutes on two cores
	go test ./...

# What is missing on the machine is skipped with a message; .ci/run installs it, and fails without.
test-all: ## all of them: with libfabric, rdma-core, MPI, Slurm, Chromium, tshark, networks, whole tables; ten minutes
	EFACTOR_TEST_ALL=1 go test -timeout=30m ./...

bench: ## benchmarks, ten runs for benchstat; BENCH=Eager chooses
	go test -run='^$$' -bench='$(BENCH)' -benchmem -count=10 ./...

fuzz: ## every fuzz target for FUZZTIME, 30s by default; .ci/fuzz -total 24h goes round them and keeps its corpus
	.ci/fuzz $(FUZZTIME)

seeds: ## SEEDS runs of the seeded simulation, 10000 by default
	go test ./api/efatest -count=1 -timeout=60m -run='TestSeeds$$' -seeds=$(SEEDS)

lint: ## golangci-lint at the pinned version, installed into ./bin if missing
	.ci/lint

profile: ## the profile for profile-guided builds, api/efa/efa.pgo, anew
	.ci/profile
