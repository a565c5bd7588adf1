#!/bin/sh
# Print the folder of the programs of Python that the packages are built and tested with. Installs them first, into
# target/release-tools.
set -eu
cd "$(dirname "$0")/.."

list=scripts/release-tools.txt
place=$PWD/target/release-tools
scripts/setup.sh python >&2
if ! cmp -s "$list" "$place/made-from"; then
    rm -rf "$place"
    python3 -m venv "$place"
    "$place/bin/pip" install --quiet --disable-pip-version-check --no-compile -r "$list" >&2
    cp "$list" "$place/made-from"
fi
echo "$place/bin"
