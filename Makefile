.DEFAULT_GOAL := help
.PHONY: help check test bench fuzz seeds lint profile

FUZZTIME ?= 30s
SEEDS ?= 10000
BENCH ?= .

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The long tests have a short form here, and fuzz targets run their seeds, as in any go
# test; .ci/run runs everything in full, and fuzzes.
check: ## everything a change must pass, in some five minutes on two cores
	.ci/lint
	go mod tidy -diff
	go vet ./...
	go test -race -short -shuffle=on ./...
	for dir in $$(.ci/modules --nested); do (cd $$dir && go mod tidy -diff && go test -race -short -shuffle=on ./...) || exit 1; done

test: ## the tests of the main module
	go test ./...

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
