#!/usr/bin/env bash
# Compile what no test runs, so that it does not rot: the crate that `make mutants` changes, the module without `unsafe`,
# and the worker in Java. The benches and the recipes in Rust are compiled by `make lint`.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/mutants.sh --check
cargo clippy --quiet --locked --lib --features portable -- -D warnings

# Jedis is in no registry that the tests can reach: what stands in for it has the same signatures and does nothing.
classes=target/check-tools/java
rm -rf "$classes"
mkdir -p "$classes"
javac --release 17 -Xlint:all,-serial -Werror -d "$classes" -sourcepath tests/examples/jedis \
    examples/workers/JedisWorker.java
