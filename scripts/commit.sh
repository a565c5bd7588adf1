#!/bin/sh
# Print the commit of a module, as recorded in the file:
#
#   scripts/commit.sh [module]    its full hash, with the suffix `-dirty` if its sources differed from the commit, or
#                                 `unknown` (default: target/release/libdehydrator.so)
#   scripts/commit.sh --here      the same for a module that would be built now, like scripts/commit/git.rs
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" != --here ]; then
    grep -a -o 'dehydrator-commit:[0-9a-z-]*' "${1:-target/release/libdehydrator.so}" | sed -n '/:./ { s/.*://p; q; }'
    exit
fi
if prefix=$(git rev-parse --show-prefix 2>/dev/null) && [ -z "$prefix" ] && hash=$(git rev-parse -q --verify HEAD); then
    [ -z "$(git --no-optional-locks status --porcelain -- src scripts/commit Cargo.toml Cargo.lock)" ] || hash=$hash-dirty
    echo "$hash"
else
    echo unknown
fi
