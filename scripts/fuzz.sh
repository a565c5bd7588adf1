#!/usr/bin/env bash
# Run the decoder of dumps under libFuzzer for some seconds (default: 600). Findings are written to tests/fuzz/artifacts; the
# corpus is kept in tests/fuzz/corpus.
#
# The flags instrument code for coverage with the stable compiler.
set -euo pipefail
cd "$(dirname "$0")/../tests/fuzz"

seconds=${1:-600}

export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"

mkdir -p corpus artifacts
# An explicit target, so that the flags do not apply to build scripts.
target=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=../../target/fuzz
cargo build --quiet --release --features tiny-bounds --target "$target"
exec "$CARGO_TARGET_DIR/$target/release/dehydrator-fuzz" -max_total_time="$seconds" -timeout=120 -rss_limit_mb=1024 \
    -max_len=4096 -print_final_stats=1 -artifact_prefix=artifacts/ corpus
