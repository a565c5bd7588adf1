#!/bin/sh
# Check the libraries of the module, the fuzzer and the live view against dist/deny.toml. cargo-deny is built from source
# once, if it is missing.
set -eu
cd "$(dirname "$0")/.."

PATH=$PWD/target/tools/bin:$PATH
if ! command -v cargo-deny >/dev/null; then
    # Without optimization, because building takes longer than running.
    cargo install --quiet --locked --debug --no-default-features --root target/tools cargo-deny
fi

for manifest in Cargo.toml tests/fuzz/Cargo.toml console/Cargo.toml; do
    [ -e "$manifest" ] || continue
    echo "--- $manifest"
    # `cargo tree -d` shows which library requires which of two versions.
    cargo-deny --manifest-path "$manifest" --locked check --config "$PWD/dist/deny.toml" --hide-inclusion-graph \
        bans licenses sources
done

# Known vulnerabilities change daily, and must be downloaded.
if cargo-deny --manifest-path Cargo.toml --locked fetch db 2>/dev/null; then
    cargo-deny --manifest-path Cargo.toml --locked check --config "$PWD/dist/deny.toml" --disable-fetch advisories
else
    echo "deny.sh: https://github.com/RustSec/advisory-db cannot be reached: advisories are not checked" >&2
fi
