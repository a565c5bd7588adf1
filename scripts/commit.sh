#!/bin/sh
# Print which commit a module is of, as it is written in the file:
#
#   scripts/commit.sh [module]    its whole hash, `-dirty` behind it if its sources were not those of the commit, or
#                                 `unknown` (default: target/release/libdehydrator.so)
#   scripts/commit.sh --here      the same of a module that would be built now: commit/git.rs asks likewise
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" != --here ]; then
    grep -a -o 'dehydrator-commit:[0-9a-z-]*' "${1:-target/release/libdehydrator.so}" | sed -n '/:./ { s/.*://p; q; }'
    exit
fi
if prefix=$(git rev-parse --show-prefix 2>/dev/null) && [ -z "$prefix" ] && hash=$(git rev-parse -q --verify HEAD); then
    [ -z "$(git --no-optional-locks status --porcelain -- src commit Cargo.toml Cargo.lock)" ] || hash=$hash-dirty
    echo "$hash"
else
    echo unknown
fi
