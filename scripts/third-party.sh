#!/bin/sh
# Print the licences of the libraries that are linked into the module and into the live view, which require this
# wherever the two are distributed without their sources. Needs those sources: after `make package`, they are there.
set -eu
cd "$(dirname "$0")/.."
sources=${CARGO_HOME:-$HOME/.cargo}/registry/src

echo 'libdehydrator.so and dehydrator-top contain these libraries, each under its licence, which follows. The Rust'
echo 'standard library is in both too: Copyright (c) The Rust Project Contributors, Apache-2.0 or MIT, as most below.'

# What the page has from others.
for folder in console/web/vendor/*/; do
    printf '\n=== %s ===\n\n' "$(basename "$folder")"
    cat "$folder"LICENSE*
done

# Build-time code, such as macros, is not in the module. A path in brackets is ours.
for manifest in Cargo.toml console/Cargo.toml; do
    cargo tree --locked --manifest-path "$manifest" --edges normal,no-proc-macro --prefix none --format '{p}|{l}'
done |
    sed 's/ (\*)$//' | sort -u | grep -v ' (/' |
    while IFS='|' read -r crate licence; do
        folder=${crate% v*}-${crate##* v}
        printf '\n=== %s: %s ===\n\n' "$crate" "$licence"
        # If there is a choice, MIT.
        for text in "$sources"/*/"$folder"/LICENSE-MIT "$sources"/*/"$folder"/LICENSE* ''; do
            [ ! -f "$text" ] || break
        done
        if [ -n "$text" ]; then
            cat "$text"
        else
            echo "(Its archive has no text of it: see https://crates.io/crates/${crate% v*})"
        fi
    done
