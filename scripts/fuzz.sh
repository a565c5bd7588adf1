#!/usr/bin/env bash
# Run the decoder of dumps under libFuzzer for so many seconds (default: 600). What it finds is written
# to fuzz/artifacts; what it learns is kept in fuzz/corpus.
#
# The flags are those by which rustc instruments code for coverage, so that the stable compiler will do.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds=${1:-600}

export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"

mkdir -p corpus artifacts
# A target of its own: the flags must not reach build scripts.
target=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=../target/fuzz
cargo build --quiet --release --features tiny-bounds --target "$target"
exec "$CARGO_TARGET_DIR/$target/release/dehydrator-fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
    -max_len=4096 -print_final_stats=1 -artifact_prefix=artifacts/ corpus
