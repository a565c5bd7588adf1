#!/usr/bin/env bash
# Compile code that no test runs, so that it stays valid: the crate that `make mutants` changes, the module without
# `unsafe`, and the worker in Java. `make lint` compiles the benches and the recipes in Rust.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/mutants.sh --check
cargo clippy --quiet --locked --lib --features portable -- -D warnings

# The tests cannot download Jedis: a stub has the same signatures and does nothing.
classes=target/check-tools/java
rm -rf "$classes"
mkdir -p "$classes"
javac --release 17 -Xlint:all,-serial -Werror -d "$classes" -sourcepath tests/examples/jedis \
    examples/workers/JedisWorker.java
