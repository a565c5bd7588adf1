# Checks beyond `make test`: included by ../Makefile.

# How long `make fuzz` runs, in seconds.
SECONDS ?= 600

# The version that `make lint-workflows` installs.
CHECK_JSONSCHEMA := 0.39.0

# The oldest supported Rust.
RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: asan asan-quick unaligned fuzz mutants planted msrv check-tools lint-scripts lint-workflows deny arm64 grafana-test

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

mutants: ## Check that the tests notice single changes to the core, the encoding and the arguments (FILES=, SHARD=0/20)
	@SHARD=$(SHARD) scripts/mutants.sh $(FILES)

planted: setup ## Check that the simulation finds each fault of tests/simulated/planted within a minute (five minutes)
	scripts/planted.sh

msrv: setup ## Build everything with the oldest Rust in Cargo.toml; rustup downloads it
	rustup toolchain install $(RUST) --profile minimal --no-self-update
	CARGO_TARGET_DIR=target/msrv cargo +$(RUST) check --locked --workspace --all-targets
	CARGO_TARGET_DIR=target/msrv cargo +$(RUST) check --locked --all-targets --manifest-path console/Cargo.toml

check-tools: setup ## Compile code that no test runs: the targets of `make mutants`, the module without `unsafe`, the worker in Java
	@scripts/setup.sh java
	scripts/check-tools.sh

lint-scripts: ## Check the shell scripts with shellcheck, and the versions of the packages
	@scripts/package-versions.sh >/dev/null
	@scripts/setup.sh scripts
	shellcheck scripts/*.sh examples/*.sh integrations/sidekiq/tests/upstream/run.sh integrations/laravel/tests/upstream/run.sh integrations/patches/test.sh dist/enable dist/prerm dist/image-configuration .ci/run

lint-workflows: ## Check the form of .github/workflows by the schema that GitHub publishes
	@scripts/setup.sh python
	@[ -e target/check-jsonschema/bin/check-jsonschema ] || { python3 -m venv target/check-jsonschema && \
	    target/check-jsonschema/bin/pip install --quiet --disable-pip-version-check check-jsonschema==$(CHECK_JSONSCHEMA); }
	target/check-jsonschema/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	target/check-jsonschema/bin/check-jsonschema --builtin-schema vendor.github-actions .github/actions/*/action.yml

deny: ## Check licences, sources, versions and advisories of the libraries with cargo-deny (built once: minutes)
	@scripts/deny.sh

arm64: ## Build the module for arm64, and test it under qemu
	@scripts/setup.sh arm64
	SERVERS_DIR=$(SERVERS_DIR) scripts/arm64.sh

grafana-test: build ## Test the dashboard, alerts and scalers of grafana/ with a real exporter and Prometheus
	@scripts/setup.sh grafana
	scripts/grafana-test.sh
