# Dehydrator. `make help` says what there is to do.

MODULE := target/release/libdehydrator.so
# The servers for `make test-servers`: names, or `all`; see scripts/servers.sh.
SERVERS ?= redis-7.0 redis-8 valkey-8
# How long `make fuzz` runs.
SECONDS ?= 600
# Where the servers for `make test-servers` and `make bench` are unpacked.
SERVERS_DIR ?= target/servers

# What `make lint-workflows` installs.
CHECK_JSONSCHEMA := 0.39.0

# Tests with real servers wait more than they work.
WAITING := $(shell echo $$(($$(nproc) * 3 + 1)))

# Tests that compute: they take ten times as long otherwise, which is more than their build.
OPTIMIZED := CARGO_PROFILE_TEST_OPT_LEVEL=1

# The crates that have unit tests.
UNITS := --package dehydrator --package dehydrator-lawn

BENCH := cargo bench --locked --package dehydrator-benches --bench

# The oldest Rust that will do.
RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# Programs of one commit are the same wherever they are built: the folders of this machine do not stand in them.
CARGO_FOLDER := $(or $(CARGO_HOME),$(HOME)/.cargo)
UNPLACED := RUSTFLAGS="$$RUSTFLAGS --remap-path-prefix=$(CARGO_FOLDER)=/cargo --remap-path-prefix=$(CURDIR)=/dehydrator" \
    CFLAGS="$$CFLAGS -ffile-prefix-map=$(CARGO_FOLDER)=/cargo"

.PHONY: build build-debug run top top-test test test-examples test-clients test-integrations test-servers torture asan asan-quick unaligned fuzz mutants bench bench-core bench-commands bench-integrations lint lint-scripts \
    check-tools fmt msrv deny package package-test release release-test lint-workflows image-test arm64 grafana-test publisher release-notes setup help clean

build: setup ## Build the module: target/release/libdehydrator.so (the default)
	$(UNPLACED) cargo build --release --locked

run: build ## Start a server with the module on 127.0.0.1:6379, data in ./data (PORT=, DATA= to change)
	@scripts/run.sh

top: setup ## Watch the dehydrators of a server in the terminal (PORT=, or URL=rediss://user:password@host:6379/0, OPTIONS='--cacert ca.crt')
	@[ -e target/top ] || echo "Building the live view, once: that takes a minute or two."
	@$(UNPLACED) CARGO_TARGET_DIR=target/top cargo run --quiet --release --locked --manifest-path top/Cargo.toml -- $(OPTIONS) $(or $(URL),redis://127.0.0.1:$(or $(PORT),6379))

top-test: build ## The live view, tested with a real server
	$(UNPLACED) CARGO_TARGET_DIR=$(abspath target/top) DEHYDRATOR_MODULE=$(abspath $(MODULE)) \
	    cargo test --release --locked --manifest-path top/Cargo.toml

build-debug: setup ## Build the module with hooks for tests: target/debug/libdehydrator.so, and a second module that listens to its events
	cargo build --locked
	cargo build --locked --profile test --example listener

test: build build-debug ## Prove it: unit and oracle tests, then real servers, redis-cli and a client library
	$(OPTIMIZED) cargo test --locked --lib $(UNITS)
	$(OPTIMIZED) cargo test --locked --lib $(UNITS) --features tiny-bounds
	$(OPTIMIZED) cargo test --locked --package dehydrator-benches --test simulation
	cargo test --locked --test server -- --test-threads $(WAITING)

test-examples: build ## The recipes in examples/, each with its client library, which is fetched
	@scripts/setup.sh examples languages
	scripts/examples.sh
	cargo build --locked --profile test --example session_timeouts --example worker
	cargo test --locked --test examples -- --test-threads 12

test-clients: build ## Each line of docs/clients.md: what client libraries do at timeouts and cuts; they are fetched
	@scripts/setup.sh examples languages
	scripts/clients.sh
	cargo test --locked --test clients -- --test-threads 4

test-integrations: build ## The packages for Python, Node and Sidekiq, and the frameworks' own tests with them, on Redis 7.0 and Valkey 8; they are fetched (QUICK=1: some, on Redis)
	scripts/integrations.sh $(SERVERS_DIR) $(if $(QUICK),--quick)
	scripts/integrations-node.sh $(SERVERS_DIR) $(if $(QUICK),--quick)
	scripts/integrations-sidekiq.sh $(SERVERS_DIR) $(if $(QUICK),--quick)

test-servers: build build-debug ## The tests with real servers, torture too, on Redis 7.0, Redis 8 and Valkey 8 (SERVERS=all or names; TORTURE=names)
	scripts/test-servers.sh $(SERVERS_DIR) $(SERVERS)

torture: asan ## What takes minutes: a model, histories, killed under load, full disks, mutated payloads, leaks; and asan
	cargo test --locked --test torture

asan: build build-debug ## The server tests under AddressSanitizer, some under memcheck; the first run builds two servers
	@scripts/setup.sh asan
	scripts/asan.sh

asan-quick: build build-debug ## Under AddressSanitizer for a minute or two what touches the most
	scripts/asan.sh quick

unaligned: build ## Tests on a server whose memory is aligned to 8 bytes; the first run builds it
	scripts/unaligned.sh

fuzz: ## The decoder of dumps under a coverage-guided fuzzer, for SECONDS=600
	@scripts/setup.sh c++
	scripts/fuzz.sh $(SECONDS)

mutants: ## Change the core, the encoding, the arguments one thing at a time: do the tests notice? (FILES=, SHARD=0/20)
	@SHARD=$(SHARD) scripts/mutants.sh $(FILES)

bench: build bench-core bench-commands ## Everything as ratios: the core, the module, how late it wakes, at what cost, and how far a node goes; see docs/benchmarks.md
	$(BENCH) module
	$(BENCH) lateness
	$(BENCH) wakeup
	@scripts/setup.sh examples
	scripts/examples.sh
	$(BENCH) machines
	$(BENCH) scaling
	scripts/servers.sh $(SERVERS_DIR)
	DEHYDRATOR_SERVER=$(abspath $(SERVERS_DIR))/redis-8 $(BENCH) module -- hash-fields

bench-commands: build ## What each command costs the server, in instructions, beside Redis's own; writes docs/benchmarks.md
	@scripts/setup.sh asan
	$(BENCH) instructions

bench-core: ## The core compared with other stores of timers; writes docs/benchmarks.md and docs/charts/
	$(BENCH) core

bench-integrations: build ## Our brokers beside the frameworks' own on Redis, in an hour and more on a quiet machine; writes docs/integrations.md (OPTIONS='--help')
	@scripts/setup.sh examples
	scripts/integrations-sidekiq.sh $(SERVERS_DIR) --bench
	scripts/integrations-node.sh $(SERVERS_DIR) --bench
	scripts/bench-integrations.sh $(SERVERS_DIR) $(OPTIONS)

lint: setup ## Formatting, and lints with warnings as errors
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --workspace --all-targets --features tiny-bounds -- -D warnings
	cd tests/clients/rust && cargo fmt --check
	cd top && cargo fmt --check && CARGO_TARGET_DIR=../target/top cargo clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --locked --workspace --no-deps --document-private-items

msrv: setup ## Build all of it with the oldest Rust that Cargo.toml allows, which rustup fetches
	rustup toolchain install $(RUST) --profile minimal --no-self-update
	CARGO_TARGET_DIR=target/msrv cargo +$(RUST) check --locked --workspace --all-targets
	CARGO_TARGET_DIR=target/msrv cargo +$(RUST) check --locked --all-targets --manifest-path top/Cargo.toml

check-tools: setup ## Compile what no test runs: what `make mutants` changes, the module without `unsafe`, the worker in Java
	@scripts/setup.sh java
	scripts/check-tools.sh

lint-scripts: ## The shell scripts, by shellcheck
	@scripts/setup.sh scripts
	shellcheck scripts/*.sh examples/*.sh integrations/sidekiq/tests/upstream/run.sh dist/enable dist/prerm dist/image-configuration .ci/run

deny: ## Licences, sources, versions and known holes of the libraries, by cargo-deny (built once: minutes)
	@scripts/deny.sh

arm64: build ## Build the module for arm64 in a Debian sid (root, 3 GB), and test it under qemu; `make package` then packs it too
	@scripts/setup.sh arm64
	SERVERS_DIR=$(SERVERS_DIR) scripts/arm64.sh

package: build ## target/package: a .deb, its line tables, a tarball, release notes, sums
	@scripts/setup.sh package
	@# What was built before it was committed tells of another commit.
	@[ "$$(scripts/commit.sh)" = "$$(scripts/commit.sh --here)" ] || { touch src/version.rs && $(MAKE) --no-print-directory build; }
	$(UNPLACED) CARGO_TARGET_DIR=target/top cargo build --release --locked --manifest-path top/Cargo.toml
	scripts/package.sh

package-test: package ## Install the .deb in a clean Debian (root), start the packaged servers, remove it (SUITES=)
	scripts/package-test.sh $(SUITES)

image-test: ## Build the image that the Dockerfile describes, by buildah, and start it (root; minutes)
	@scripts/setup.sh image
	scripts/image-test.sh

release: ## All that a release publishes, in target/release-files, from a clean clone of a tag (root; KEY=, the OpenPGP key that signs; BASES=stand-ins)
	KEY="$(KEY)" BASES="$(BASES)" scripts/release.sh

release-test: ## Try what `make release` has made as its users would have it (root; KEY= to make it twice; ONLY=steps)
	KEY="$(KEY)" scripts/release-test.sh

lint-workflows: ## The form of .github/workflows, by the schema that GitHub publishes
	@scripts/setup.sh python
	@[ -e target/check-jsonschema/bin/check-jsonschema ] || { python3 -m venv target/check-jsonschema && \
	    target/check-jsonschema/bin/pip install --quiet --disable-pip-version-check check-jsonschema==$(CHECK_JSONSCHEMA); }
	target/check-jsonschema/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

grafana-test: build ## The dashboard, the alerts and the scalers of grafana/, with a real exporter and a real Prometheus
	@scripts/setup.sh grafana
	scripts/grafana-test.sh

publisher: ## Write who publishes it, as dist/publisher.toml says, wherever it is told
	scripts/publisher.py fill

release-notes: ## What CHANGELOG.md says of the topmost version
	@scripts/release-notes.sh

fmt: ## Format the code
	cargo fmt
	rustfmt --edition 2024 commit/lib.rs
	cd tests/clients/rust && cargo fmt
	cd top && cargo fmt

setup: ## Install what is missing (a C compiler, libclang, redis-server), or say what to install
	@scripts/setup.sh

clean: ## Remove what was built; ./data stays
	cargo clean

help: ## This list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | \
	    awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'
