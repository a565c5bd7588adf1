#!/bin/sh
# Fetch the client libraries that the examples use, in the versions that examples/ pins: a Python
# environment in target/examples/venv, and Node's packages in examples/node_modules, where Node looks for
# them. Does nothing when they are there.
set -eu
cd "$(dirname "$0")/.."

# Of what a system installs these may be older, and would fail in ways that do not say so.
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "The examples need Python 3.10 or later; this is $(python3 --version)." >&2
    exit 1
fi
if ! node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)'; then
    echo "The examples need Node 18 or later, as from https://nodejs.org; this is $(node --version)." >&2
    exit 1
fi

# Each place keeps a copy of the list that it was made from.
venv=target/examples/venv
if ! cmp -s examples/requirements.txt "$venv/made-from"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r examples/requirements.txt
    cp examples/requirements.txt "$venv/made-from"
fi
modules=examples/node_modules
if ! cmp -s examples/package-lock.json "$modules/.made-from"; then
    npm ci --prefix examples --omit=dev --no-audit --no-fund --loglevel=error
    cp examples/package-lock.json "$modules/.made-from"
fi
