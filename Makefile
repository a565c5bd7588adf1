# Dehydrator. `make help` lists the targets.

MODULE := target/release/libdehydrator.so
# The servers for `make test-servers`: names, or `all`; see scripts/servers.sh.
SERVERS ?= redis-7.0 redis-8 valkey-8
# How long `make fuzz` runs, in seconds.
SECONDS ?= 600
# Where the servers for `make test-servers` and `make bench` are unpacked.
SERVERS_DIR ?= target/servers

# The version that `make lint-workflows` installs.
CHECK_JSONSCHEMA := 0.39.0

# Tests with real servers mostly wait.
WAITING := $(shell echo $$(($$(nproc) * 3 + 1)))

# Optimization for tests that compute: without it they take ten times as long, which is more than their build.
OPTIMIZED := CARGO_PROFILE_TEST_OPT_LEVEL=1

# The crates that have unit tests.
UNITS := --package dehydrator --package dehydrator-lawn

BENCH := cargo bench --locked --package dehydrator-benches --bench

# The oldest supported Rust.
RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# Builds of one commit are identical wherever they are built: they do not contain the folders of this machine.
CARGO_FOLDER := $(or $(CARGO_HOME),$(HOME)/.cargo)
UNPLACED := RUSTFLAGS="$$RUSTFLAGS --remap-path-prefix=$(CARGO_FOLDER)=/cargo --remap-path-prefix=$(CURDIR)=/dehydrator" \
    CFLAGS="$$CFLAGS -ffile-prefix-map=$(CARGO_FOLDER)=/cargo"

.PHONY: build build-debug run top web top-test top-web-test test test-examples test-clients test-integrations test-servers torture asan asan-quick unaligned fuzz mutants simulate planted bench bench-core bench-commands bench-field bench-integrations bench-tracing bench-wide lint lint-scripts \
    check-tools fmt msrv deny package package-test packages-test release release-test lint-workflows image-test arm64 grafana-test publisher release-notes setup help clean

build: setup ## Build the module: target/release/libdehydrator.so (the default)
	$(UNPLACED) cargo build --release --locked

run: build ## Start a server with the module on 127.0.0.1:6379, data in ./data (PORT=, DATA= to change)
	@scripts/run.sh

top: setup ## Watch the dehydrators of a server in the terminal (PORT=, or URL=rediss://user:password@host:6379/0, OPTIONS='--cacert ca.crt')
	@[ -e target/top ] || echo "Building the live view, once: that takes a minute or two."
	@$(UNPLACED) CARGO_TARGET_DIR=target/top cargo run --quiet --release --locked --manifest-path top/Cargo.toml -- $(OPTIONS) $(or $(URL),redis://127.0.0.1:$(or $(PORT),6379))

web: setup ## Serve the page of the dehydrators of a server on 127.0.0.1:8380 (PORT= or URL= as for top, WEB=address:port, OPTIONS='--login')
	@[ -e target/top ] || echo "Building the page, once: that takes some minutes."
	@$(UNPLACED) CARGO_TARGET_DIR=target/top cargo run --quiet --release --locked --manifest-path top/Cargo.toml -- --web $(or $(WEB),127.0.0.1:8380) $(OPTIONS) $(or $(URL),redis://127.0.0.1:$(or $(PORT),6379))

top-test: build ## Test the live view and the answers of the page with real servers
	$(UNPLACED) CARGO_TARGET_DIR=$(abspath target/top) DEHYDRATOR_MODULE=$(abspath $(MODULE)) \
	    cargo test --release --locked --manifest-path top/Cargo.toml

top-web-test: build ## Test the page in Chromium with real servers; the first run downloads it
	@scripts/setup.sh browser
	@# The flags are those of `make package`, or else all would be built twice.
	$(UNPLACED) scripts/top-web-test.sh

build-debug: setup ## Build the module with hooks for tests (target/debug/libdehydrator.so), and a second module that listens to its events
	cargo build --locked
	cargo build --locked --profile test --example listener

test: build build-debug ## Run unit and oracle tests, then tests with real servers, redis-cli and a client library
	$(OPTIMIZED) cargo test --locked --lib $(UNITS)
	$(OPTIMIZED) cargo test --locked --package dehydrator-lawn --features tiny-bounds
	$(OPTIMIZED) cargo test --locked --package dehydrator-simulation
	cargo test --locked --package dehydrator-simulated
	cargo test --locked --test server -- --test-threads $(WAITING)

test-examples: build ## Test the recipes in examples/; downloads their client libraries
	@scripts/setup.sh examples languages
	scripts/examples.sh
	cargo build --locked --profile test --example session_timeouts --example worker
	cargo test --locked --test examples -- --test-threads 12

test-clients: build ## Test each line of docs/clients.md: client libraries at timeouts and broken connections; downloads them
	@scripts/setup.sh examples languages
	scripts/clients.sh
	cargo test --locked --test clients -- --test-threads 4

test-integrations: build ## Test the packages for Python, Node, Go, Sidekiq, Laravel and Symfony, also with the frameworks' own tests, on Redis 7.0 and Valkey 8; downloads them (QUICK=1: some, on Redis)
	scripts/integrations.sh $(SERVERS_DIR) $(if $(QUICK),--quick)
	scripts/integrations-node.sh $(SERVERS_DIR) $(if $(QUICK),--quick)
	scripts/integrations-go.sh $(SERVERS_DIR) $(if $(QUICK),--quick)
	scripts/integrations-sidekiq.sh $(SERVERS_DIR) $(if $(QUICK),--quick)
	scripts/integrations-php.sh $(SERVERS_DIR) $(if $(QUICK),--quick)

test-servers: build build-debug ## Run the tests with real servers, and torture, on Redis 7.0, Redis 8 and Valkey 8 (SERVERS=all or names; TORTURE=names)
	scripts/test-servers.sh $(SERVERS_DIR) $(SERVERS)

torture: asan ## Run the tests that take minutes: a model, histories, kills under load, full disks, mutated payloads, leaks; and asan
	cargo test --locked --test torture

asan: build build-debug ## Run the server tests under AddressSanitizer, some under memcheck; the first run builds two servers
	@scripts/setup.sh asan
	scripts/asan.sh

asan-quick: build build-debug ## Run the tests with the widest coverage under AddressSanitizer, with memory aligned to 8 bytes, in some minutes
	scripts/asan.sh quick

unaligned: build ## Run tests on a server whose memory is aligned to 8 bytes; the first run builds it
	scripts/unaligned.sh

fuzz: ## Fuzz the decoder of dumps, coverage-guided, for SECONDS=600
	@scripts/setup.sh c++
	scripts/fuzz.sh $(SECONDS)

simulate: setup ## Simulate servers, clients and accidents in virtual time, for HOURS=0.01, from SEED= (printed)
	cargo build --locked --profile simulated --lib --bins --package dehydrator --package dehydrator-simulated
	target/simulated/simulated target/simulated/libdehydrator.so hours $(or $(HOURS),0.01) $(if $(SEED),seed $(SEED))

planted: setup ## Check that the simulation finds each fault of tests/simulated/planted within a minute (a quarter of an hour)
	scripts/planted.sh

mutants: ## Check that the tests notice single changes to the core, the encoding and the arguments (FILES=, SHARD=0/20)
	@SHARD=$(SHARD) scripts/mutants.sh $(FILES)

bench: build bench-core bench-commands ## Run all benches: the core, the module, delivery latency, costs, and the capacity of a node; see docs/benchmarks.md
	$(BENCH) module
	$(BENCH) lateness
	$(BENCH) wakeup
	@scripts/setup.sh examples
	scripts/examples.sh
	$(BENCH) machines
	$(BENCH) scaling
	scripts/servers.sh $(SERVERS_DIR)
	DEHYDRATOR_SERVER=$(abspath $(SERVERS_DIR))/redis-8 $(BENCH) module -- hash-fields

bench-commands: build ## Count the instructions of each command, compared with Redis's own; writes docs/benchmarks.md
	@scripts/setup.sh asan
	$(BENCH) instructions

bench-core: ## Compare the core with other stores of timers; writes docs/benchmarks.md and docs/charts/
	$(BENCH) core

bench-field: build ## Compare with beanstalkd, BullMQ, pgmq, Graphile Worker, NATS, RabbitMQ and a sorted set, in half an hour on an idle machine; writes docs/benchmarks.md (OPTIONS='--help')
	@scripts/setup.sh examples field
	scripts/bench-field.sh $(SERVERS_DIR) $(OPTIONS)

bench-integrations: build ## Compare our brokers with the frameworks' own on Redis, in an hour or more on an idle machine; writes docs/integrations.md (OPTIONS='--help')
	@scripts/setup.sh examples languages laravel symfony
	scripts/integrations-sidekiq.sh $(SERVERS_DIR) --bench
	scripts/integrations-node.sh $(SERVERS_DIR) --bench
	scripts/bench-integrations.sh $(SERVERS_DIR) $(OPTIONS)

bench-tracing: build ## Measure what OpenTelemetry costs a worker in Python and Node, in some minutes on an idle machine (OPTIONS='--runs 3')
	@scripts/setup.sh examples
	scripts/bench-tracing.sh $(SERVERS_DIR) $(OPTIONS)

bench-wide: build ## Measure queues of several keys in Python and Node over three primaries, in some minutes (OPTIONS='--runs 1')
	@scripts/setup.sh examples
	scripts/bench-wide.sh $(SERVERS_DIR) $(OPTIONS)

lint: setup ## Check formatting, and lint with warnings as errors
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --package dehydrator-lawn --all-targets --features tiny-bounds -- -D warnings
	cd tests/clients/rust && cargo fmt --check
	@# With the flags and the profile of `top-test`, which share the build scripts and macros.
	cd top && cargo fmt --check
	$(UNPLACED) CARGO_TARGET_DIR=target/top cargo clippy --release --locked --all-targets --manifest-path top/Cargo.toml -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --locked --workspace --no-deps --document-private-items

msrv: setup ## Build everything with the oldest Rust in Cargo.toml; rustup downloads it
	rustup toolchain install $(RUST) --profile minimal --no-self-update
	CARGO_TARGET_DIR=target/msrv cargo +$(RUST) check --locked --workspace --all-targets
	CARGO_TARGET_DIR=target/msrv cargo +$(RUST) check --locked --all-targets --manifest-path top/Cargo.toml

check-tools: setup ## Compile code that no test runs: the targets of `make mutants`, the module without `unsafe`, the worker in Java
	@scripts/setup.sh java
	scripts/check-tools.sh

lint-scripts: ## Check the shell scripts with shellcheck
	@scripts/setup.sh scripts
	shellcheck scripts/*.sh examples/*.sh integrations/sidekiq/tests/upstream/run.sh integrations/laravel/tests/upstream/run.sh integrations/upstream/test.sh dist/enable dist/prerm dist/image-configuration .ci/run

deny: ## Check licences, sources, versions and advisories of the libraries with cargo-deny (built once: minutes)
	@scripts/deny.sh

arm64: ## Build the module for arm64, and test it under qemu
	@scripts/setup.sh arm64
	SERVERS_DIR=$(SERVERS_DIR) scripts/arm64.sh

package: build ## target/package: a .deb, its line tables, a tarball, release notes, sums
	@scripts/setup.sh package
	@# A build from before the commit reports another commit.
	@[ "$$(scripts/commit.sh)" = "$$(scripts/commit.sh --here)" ] || { touch src/version.rs && $(MAKE) --no-print-directory build; }
	$(UNPLACED) CARGO_TARGET_DIR=target/top cargo build --release --locked --manifest-path top/Cargo.toml
	scripts/package.sh

package-test: package ## Install the .deb in a clean Debian (root), start the packaged servers, remove it (SUITES=)
	scripts/package-test.sh $(SUITES)

image-test: ## Build the image of the Dockerfile with buildah, and start it (root; minutes)
	@scripts/setup.sh image
	scripts/image-test.sh

release: ## Build all files of a release in target/release-files, from a clean clone of a tag (root; KEY=, the OpenPGP key that signs; BASES=stand-ins)
	KEY="$(KEY)" BASES="$(BASES)" scripts/release.sh

release-test: ## Try the files of `make release` as users would (root; KEY= to make them twice; ONLY=steps)
	KEY="$(KEY)" scripts/release-test.sh

lint-workflows: ## Check the form of .github/workflows by the schema that GitHub publishes
	@scripts/setup.sh python
	@[ -e target/check-jsonschema/bin/check-jsonschema ] || { python3 -m venv target/check-jsonschema && \
	    target/check-jsonschema/bin/pip install --quiet --disable-pip-version-check check-jsonschema==$(CHECK_JSONSCHEMA); }
	target/check-jsonschema/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

grafana-test: build ## Test the dashboard, alerts and scalers of grafana/ with a real exporter and Prometheus
	@scripts/setup.sh grafana
	scripts/grafana-test.sh

# The module for this machine alone, and a server that takes a minute to build.
PACKAGES := target/release-packages
packages-test: build ## Build the packages for PyPI, npm and RubyGems for this machine, install and use them
	@mkdir -p $(PACKAGES)/modules/$(shell uname -m)-unknown-linux-gnu
	cp $(MODULE) $(PACKAGES)/modules/$(shell uname -m)-unknown-linux-gnu/
	$(UNPLACED) CARGO_TARGET_DIR=target/top cargo build --release --locked --manifest-path top/Cargo.toml
	@# Not a static one, as in a release.
	@mkdir -p $(PACKAGES)/modules/$(shell uname -m)-unknown-linux-musl
	cp target/top/release/dehydrator-top $(PACKAGES)/modules/$(shell uname -m)-unknown-linux-musl/
	rm -rf $(PACKAGES)/built
	PUBLISHER=tests/data/publisher.toml OPTIMIZATION=-O1 scripts/release-packages.sh $(PACKAGES)/built $(PACKAGES)/modules
	PUBLISHER=tests/data/publisher.toml scripts/release-packages-test.sh $(PACKAGES)/built --quick

publisher: ## Copy the publisher's addresses from dist/publisher.toml to every file that has them
	scripts/publisher.py fill

release-notes: ## Print the topmost version's notes from CHANGELOG.md
	@scripts/release-notes.sh

fmt: ## Format the code
	cargo fmt
	rustfmt --edition 2024 commit/lib.rs
	cd tests/clients/rust && cargo fmt
	cd top && cargo fmt

setup: ## Install missing packages (a C compiler, libclang, redis-server), or print what to install
	@scripts/setup.sh

clean: ## Remove all builds; ./data stays
	cargo clean

help: ## Print this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | \
	    awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'
