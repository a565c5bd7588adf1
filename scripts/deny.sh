#!/bin/sh
# Look at the libraries that the module, the fuzzer and the live view are made of by the rules of deny.toml.
# cargo-deny is built from its sources if it is not there, once.
set -eu
cd "$(dirname "$0")/.."

PATH=$PWD/target/tools/bin:$PATH
if ! command -v cargo-deny >/dev/null; then
    # Unoptimised, because it is built for longer than it ever runs.
    cargo install --quiet --locked --debug --no-default-features --root target/tools cargo-deny
fi

for manifest in Cargo.toml fuzz/Cargo.toml top/Cargo.toml; do
    [ -e "$manifest" ] || continue
    echo "--- $manifest"
    # Which library wants which, in each of two versions, is told by `cargo tree -d`.
    cargo-deny --manifest-path "$manifest" --locked check --hide-inclusion-graph \
        bans licenses sources
done

# What is known to be unsafe changes from day to day, and has to be fetched.
if cargo-deny --manifest-path Cargo.toml --locked fetch db 2>/dev/null; then
    cargo-deny --manifest-path Cargo.toml --locked check --disable-fetch advisories
else
    echo "deny.sh: https://github.com/RustSec/advisory-db cannot be reached: advisories are not checked" >&2
fi
