#!/bin/sh
# Print where zig is: a C compiler for every target, with the C libraries. Installs it first, from PyPI, into target/zig.
set -eu
cd "$(dirname "$0")/.."

version=0.17.1

place=$PWD/target/zig-$version
mkdir -p target
(
    # One at a time.
    flock 9
    [ -e "$place/made" ] || {
        rm -rf "$place"
        python3 -m venv "$place"
        "$place/bin/pip" install --quiet --disable-pip-version-check --no-compile "ziglang==$version" >&2
        touch "$place/made"
    }
) 9>"$place.lock"
"$place/bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))'
