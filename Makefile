# Common tasks of developers. `make` without a target lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# rustup installs the toolchain here. Some shells do not have it in their PATH yet.
export PATH := $(HOME)/.cargo/bin:$(PATH)

CARGO ?= cargo

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Build, then measure sqlite: and fjall: with a study and with real documents
	scripts/demo.sh

.PHONY: check
check: tidy ## Format, clippy, documentation, licences
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	# There are no examples, but with `--examples` the dependencies have the same features as for clippy.
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet --lib --bins --examples
	$(MAKE) embedded

.PHONY: tidy
tidy: ## Checks that need no compiler: format, licences, words, spelling, workflows, scripts, lock files
	$(CARGO) fmt --all --check
	python3 scripts/licences.py
	python3 scripts/words.py
	"$$(servers/where python-tools)/bin/typos"
	python3 scripts/workflows.py
	"$$(servers/where workflow-tools)/actionlint" -shellcheck= -pyflakes=
	LD_LIBRARY_PATH="$$(servers/where workflow-tools --libraries)" "$$(servers/where workflow-tools)/usr/bin/shellcheck" \
		--severity warning $$(git ls-files '*.sh') .ci/run scripts/rustdoc-and-lints
	# Separate workspaces have their own lock files, which must stay up to date with changes here.
	for of in crates/hdfs dev/bench; do $(CARGO) update --quiet --workspace --locked --manifest-path $$of/Cargo.toml; done
	REPORT_TOOLS="$$(servers/where report-tools)" node report/build.mjs --check

# Checks what `make demo` builds. Uses clippy with the same flags, so that dependencies are checked only once.
.PHONY: embedded
embedded:
	$(CARGO) clippy -p storebench --no-default-features --features embedded --locked -- -D warnings

.PHONY: test
test: ## Run every test, also on real servers; the last lines count them
	servers/install all & $(CARGO) test --workspace --locked --no-run && wait $$!
	# Servers in Java run for seconds here: the full compiler would take longer than they do.
	JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" RUST_TEST_THREADS=$(TEST_THREADS) python3 scripts/count-tests.py --at-once 2 --stores $(CONFORMING) \
		$(CARGO) test --workspace --locked

# The stores on which the conformance suite must run. A server that does not start fails the tests.
CONFORMING = sqlite,fjall,redb,memory,$(CONFORMING_SERVERS)
CONFORMING_SERVERS = postgres,mysql,redis,valkey,memcached,mongodb,ferretdb,couchdb,ravendb,couchbase,cassandra,opensearch,dynamodb

# Most tests wait for servers, so run more at once than there are processors.
TEST_THREADS ?= 4

.PHONY: report
report: ## Build the report's script, which is checked in
	REPORT_TOOLS="$$(servers/where report-tools)" node report/build.mjs

.PHONY: wheel
wheel: ## Build the Python package into dist/, and try it in a clean environment
	servers/install python-tools
	rm -rf dist
	"$$(servers/where python-tools)/bin/maturin" build --profile dist --locked --manifest-path crates/python/Cargo.toml \
		--target-dir "$${CARGO_TARGET_DIR:-target}" --out dist
	scripts/try-wheel.sh dist/*.whl

# The architectures of a release.
ARCHES ?= x86_64 aarch64

.PHONY: dist
dist: ## Build a release into dist/: tarballs, packages, wheels, images (an hour for each architecture)
	servers/install dist-tools python-tools
	rustup target add $(ARCHES:%=%-unknown-linux-gnu)
	rm -rf dist
	for arch in $(ARCHES); do scripts/dist/build.sh $$arch; done

.PHONY: try-dist
try-dist: ## Try what `make dist` built in new roots of Debian 12 and 11, which have no compiler; needs root
	scripts/dist/try.sh

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all

# The program that measures; arguments follow.
BENCH = $(CARGO) run --release --locked --manifest-path dev/bench/Cargo.toml \
	--target-dir "$${CARGO_TARGET_DIR:-target}/bench" --

.PHONY: bench
bench: ## Test what measures, and measure Storebench itself, each figure next to its reference
	$(CARGO) build --release --locked -p storebench -p storebench-python
	$(CARGO) test --release --locked --manifest-path dev/bench/Cargo.toml --target-dir "$${CARGO_TARGET_DIR:-target}/bench"
	$(BENCH)

.PHONY: bench-peers
bench-peers: ## Measure the client beside other load generators, and write docs/efficiency.md
	$(CARGO) build --release --locked -p storebench
	$(BENCH) --only peers --keep

.PHONY: all-stores
all-stores: ## Two studies on every store that installs here, as one page in storebench-runs/all-stores (some hours)
	$(CARGO) build --release --locked -p storebench
	scripts/all-stores.py

.PHONY: check-speed
check-speed: ## Compare the instructions of an operation with the counts in dev/bench/instructions.txt
	$(BENCH) --only instructions --strict

# Each driver is a feature of its own, which others must not be needed for.
DRIVERS = $(shell python3 -c "import tomllib; \
	print(*tomllib.load(open('crates/stores/Cargo.toml', 'rb'))['features']['default'])")

.PHONY: drivers
drivers: ## Compile each driver without the others
	for driver in $(DRIVERS); do \
		$(CARGO) clippy -p storebench-stores --no-default-features --features $$driver --locked -- -D warnings || exit; done

# The oldest Rust that Cargo.toml promises.
MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: msrv
msrv: ## Check the workspace with the oldest Rust that Cargo.toml promises
	rustup toolchain install $(MSRV) --profile minimal --no-self-update
	$(CARGO) +$(MSRV) check --workspace --all-targets --locked --target-dir "$${CARGO_TARGET_DIR:-target}/msrv"

.PHONY: soak
soak: drivers ## Run the tests that take too long for `make test`, and keep the results
	scripts/soak.sh --workspace --locked

# What the workflows in .github/workflows run, besides targets above.

.PHONY: ci
ci: ## What must pass before a change is merged: check and test in one build
	.ci/run

.PHONY: ci-setup
ci-setup: ## As root on a clean Debian 12: install what these targets need
	scripts/ci-setup.sh

.PHONY: nightly
nightly: ## Measure for some minutes, and compare with the history of the branch `history`
	$(CARGO) build --release --locked -p storebench
	scripts/nightly.sh measure "$${CARGO_TARGET_DIR:-target}/release/storebench"

.PHONY: keep-history
keep-history: ## Add what `make nightly` measured to the branch `history`
	scripts/nightly.sh keep

# The tag that is released: the one that a workflow runs for, or else that of the version in Cargo.toml.
TAG ?= $(or $(GITHUB_REF_NAME),v$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml))

.PHONY: release-notes
release-notes: ## Print what CHANGELOG.md says of the version; fails if it is not ready for TAG
	@scripts/release-notes.py "$(TAG)"

.PHONY: publish
publish: ## Publish dist/ as the release of TAG on GitHub
	scripts/publish.sh "$(TAG)"
