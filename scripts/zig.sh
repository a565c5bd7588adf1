#!/bin/sh
# Print a folder with `zig`, a C compiler and linker for every target that brings the C libraries along, and `cargo-zigbuild`,
# which has Cargo link with it. Installs them first, from PyPI, into target/zig.
set -eu
cd "$(dirname "$0")/.."

versions='ziglang==0.17.1 cargo-zigbuild==0.24.0'

place=$PWD/target/zig
mkdir -p target
(
    # One at a time.
    flock 9
    [ "$(cat "$place/made" 2>/dev/null)" = "$versions" ] || {
        rm -rf "$place"
        python3 -m venv "$place"
        # shellcheck disable=SC2086  # a list
        "$place/bin/pip" install --quiet --disable-pip-version-check --no-compile $versions >&2
        # Relative: see scripts/cross.sh, which gives this folder another name.
        (cd "$place/bin" && ln -s ../lib/python3*/site-packages/ziglang/zig .)
        echo "$versions" >"$place/made"
    }
) 9>"$place.lock"
echo "$place/bin"
