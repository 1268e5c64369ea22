# Everything a developer does, by name. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Where rustup puts the toolchain, for shells that do not know it yet.
export PATH := $(HOME)/.cargo/bin:$(PATH)

CARGO ?= cargo

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Build, then measure sqlite: and fjall: with a study and with real documents
	scripts/demo.sh

.PHONY: check
check: tidy ## Format, clippy, documentation, licences
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	# With `--examples`, though there are none, dependencies have the features that clippy has checked them with.
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet --lib --bins --examples
	$(MAKE) embedded

.PHONY: tidy
tidy: ## Format, licences, lock files, the script of the report: what needs no compiler
	$(CARGO) fmt --all --check
	python3 scripts/licences.py
	python3 scripts/words.py
	# Workspaces of their own have lock files of their own; what changes here must not leave them behind.
	for of in crates/hdfs dev/bench; do $(CARGO) update --quiet --workspace --locked --manifest-path $$of/Cargo.toml; done
	REPORT_TOOLS="$$(servers/where report-tools)" node report/build.mjs --check

# What `make demo` builds. By clippy too, and not with other flags: the packages of others are then checked once.
.PHONY: embedded
embedded:
	$(CARGO) clippy -p storebench --no-default-features --features embedded --locked -- -D warnings

.PHONY: test
test: ## Run every test, also on real servers; the last lines count them
	servers/install all & $(CARGO) test --workspace --locked --no-run && wait $$!
	RUST_TEST_THREADS=$(TEST_THREADS) python3 scripts/count-tests.py --at-once 2 --stores $(CONFORMING) \
		$(CARGO) test --workspace --locked

# The stores on which the conformance suite has to run. A server that does not start fails the tests.
CONFORMING = sqlite,fjall,redb,memory,postgres,redis,memcached,mongodb,couchdb,ravendb,couchbase

# Most tests wait for servers: more at once than there are processors.
TEST_THREADS ?= 4

.PHONY: report
report: ## Build the script of the report, which is checked in
	REPORT_TOOLS="$$(servers/where report-tools)" node report/build.mjs

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all

.PHONY: bench
bench: ## Measure Storebench itself, each figure beside its reference
	$(CARGO) build --release --locked -p storebench
	$(CARGO) run --release --locked --manifest-path dev/bench/Cargo.toml --target-dir "$${CARGO_TARGET_DIR:-target}/bench"

.PHONY: soak
soak: ## Run the tests that take too long for `make test`; keeps what came of it
	scripts/soak.sh --workspace --locked
