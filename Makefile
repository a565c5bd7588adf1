# Dehydrator. `make help` lists the targets that one needs, `make help-all` all of them.
#
# scripts/checks.mk, scripts/bench.mk and scripts/release.mk have what few need: further checks, benches, releases.

MODULE := target/release/libdehydrator.so
# The servers for `make test-servers`: names, or `all`; see scripts/servers.sh.
SERVERS ?= redis-7.0 redis-8 valkey-8
# Where the servers for `make test-servers` and `make bench` are unpacked. Absolute, because some programs change their folder.
override SERVERS_DIR := $(abspath $(or $(SERVERS_DIR),target/servers))
# The packages that `make test-integrations` tests.
PACKAGE ?= python node go sidekiq php

# Tests with real servers mostly wait.
WAITING := $(shell echo $$(($$(nproc) * 3 + 1)))

# Optimization for tests that compute: without it they take ten times as long, which is more than their build.
OPTIMIZED := CARGO_PROFILE_TEST_OPT_LEVEL=1

# The crates that have unit tests.
UNITS := --package dehydrator --package dehydrator-lawn

.PHONY: build build-debug run top web top-test top-web-test test test-units test-examples test-clients test-integrations test-servers torture \
    simulate lint fmt setup clean help help-all

build: setup ## Build the module: target/release/libdehydrator.so (the default)
	cargo build --release --locked

run: build ## Start a server with the module on 127.0.0.1:6379, data in ./data (PORT=, DATA= to change)
	@scripts/run.sh

# Without --quiet: it tells how far it is.
BUILD_TOP = CARGO_TARGET_DIR=target/top cargo build --release --locked --manifest-path console/Cargo.toml

top: setup ## Watch the dehydrators of a server in the terminal (PORT=, or URL=rediss://user:password@host:6379/0, OPTIONS='--cacert ca.crt')
	@[ -e target/top/release/dehydrator-top ] || { echo "Building the live view, once: that takes a minute or two."; $(BUILD_TOP); }
	@CARGO_TARGET_DIR=target/top cargo run --quiet --release --locked --manifest-path console/Cargo.toml -- $(OPTIONS) $(or $(URL),redis://127.0.0.1:$(or $(PORT),6379))

web: setup ## Serve the page of the dehydrators of a server on 127.0.0.1:8380 (PORT= or URL= as for top, WEB=address:port, OPTIONS='--login')
	@[ -e target/top/release/dehydrator-top ] || { echo "Building the page, once: that takes some minutes."; $(BUILD_TOP); }
	@CARGO_TARGET_DIR=target/top cargo run --quiet --release --locked --manifest-path console/Cargo.toml -- --web $(or $(WEB),127.0.0.1:8380) $(OPTIONS) $(or $(URL),redis://127.0.0.1:$(or $(PORT),6379))

top-test: build ## Test the live view and the answers of the page with real servers
	CARGO_TARGET_DIR=$(abspath target/top) DEHYDRATOR_MODULE=$(abspath $(MODULE)) \
	    cargo test --release --locked --manifest-path console/Cargo.toml

top-web-test: build ## Test the page in Chromium with real servers; the first run downloads it
	@scripts/setup.sh browser
	scripts/top-web-test.sh

build-debug: setup ## Build the module with hooks for tests (target/debug/libdehydrator.so), and a second module that listens to its events
	cargo build --locked
	cargo build --locked --profile test --example listener

test: test-units build build-debug ## Run unit and oracle tests, then tests with real servers, redis-cli and a client library
	cargo test --locked --test server -- --test-threads $(WAITING)

test-units: build-debug ## Run the tests without servers: units, the core beside its oracle, the simulation's own
	$(OPTIMIZED) cargo test --locked --lib $(UNITS)
	$(OPTIMIZED) cargo test --locked --package dehydrator-lawn --features tiny-bounds
	$(OPTIMIZED) cargo test --locked --package dehydrator-simulation
	cargo test --locked --package dehydrator-simulated

test-examples: build ## Test the recipes in examples/; downloads their client libraries
	@scripts/setup.sh examples languages
	scripts/examples.sh
	cargo build --locked --profile test --example session_timeouts --example worker
	cargo test --locked --test examples -- --test-threads 12

test-clients: build ## Test each line of docs/clients.md: client libraries at timeouts and broken connections; downloads them
	@scripts/setup.sh examples languages
	scripts/clients.sh
	cargo test --locked --test clients -- --test-threads 4

test-integrations: build ## Test the packages for Python, Node, Go, Sidekiq, Laravel and Symfony, also with the frameworks' own tests, on Redis 7.0 and Valkey 8; downloads them (QUICK=1: some, on Redis; PACKAGE=python: one)
	set -e; for package in $(PACKAGE); do scripts/integrations-$$package.sh $(SERVERS_DIR) $(if $(QUICK),--quick); done

test-servers: build build-debug ## Run the tests with real servers, and torture, on Redis 7.0, Redis 8 and Valkey 8 (SERVERS=all or names; SUITES=server)
	scripts/test-servers.sh $(SERVERS_DIR) $(SERVERS)

torture: asan ## Run the tests that take minutes: anything at all, crowds, kills under load, full disks, mutated payloads, leaks; and asan
	cargo test --locked --test torture

simulate: setup ## Simulate servers, clients and accidents in virtual time, for HOURS=0.01, from SEED= (a new one, printed first)
	cargo build --locked --profile simulated --lib --bins --package dehydrator --package dehydrator-simulated
	target/simulated/simulated target/simulated/libdehydrator.so hours $(or $(HOURS),0.01) $(if $(SEED),seed $(SEED))

lint: setup ## Check formatting, and lint with warnings as errors
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --package dehydrator-lawn --all-targets --features tiny-bounds -- -D warnings
	cd tests/clients/rust && cargo fmt --check
	@# With the profile of `top-test`, which shares the build scripts and macros.
	cd console && cargo fmt --check
	CARGO_TARGET_DIR=target/top cargo clippy --release --locked --all-targets --manifest-path console/Cargo.toml -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --locked --workspace --no-deps --document-private-items

fmt: ## Format the code
	cargo fmt
	rustfmt --edition 2024 scripts/commit/lib.rs
	cd tests/clients/rust && cargo fmt
	cd console && cargo fmt

setup: ## Install missing packages (a C compiler, libclang, redis-server), or print what to install
	@scripts/setup.sh

clean: ## Remove all builds; ./data stays
	cargo clean

include scripts/checks.mk scripts/bench.mk scripts/release.mk

# What most need, in the order in which they need it.
MAIN := build run test top web test-servers test-integrations simulate lint fmt bench help-all
help: ## Print this list
	@for target in $(MAIN); do sed -n "s/^\\($$target\\):.*## \\(.*\\)/make \\1|\\2/p" $(MAKEFILE_LIST); done | \
	    awk -F'|' '{ printf "  %-23s %s\n", $$1, $$2 }'

help-all: ## Print all targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  %-23s %s\n", $$1, $$2 }'
