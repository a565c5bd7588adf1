#!/bin/sh
# Test the page of dehydrator-top in a real browser (Debian's chromium), with the real program and real servers.
#
# usage: top-web-test.sh [folder-of-servers [name-of-server]]
#
# The module must be built (`make build`). What else it needs is built, and fetched by apt-get and by npm, in the versions that
# console/tests/browser/package-lock.json pins. Screenshots of each view are in target/top-web-screenshots afterwards.
# ONLY=<part of a test's name> runs some of the tests. DEHYDRATOR_TOP names another program: a debug build reads console/web/ when it
# runs, so that a changed line needs no build.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh browser
node=$(scripts/node.sh)
PATH=$node:$PATH

place=console/tests/browser
if grep -q '"resolved"' "$place/package-lock.json"; then
    echo "$place/package-lock.json names a registry: npm install with $place/.npmrc leaves that out." >&2
    exit 1
fi
if ! cmp -s "$place/package-lock.json" "$place/node_modules/.made-from"; then
    npm ci --prefix "$place" --ignore-scripts --no-audit --no-fund --loglevel=error
    cp "$place/package-lock.json" "$place/node_modules/.made-from"
fi

servers=${1-target/servers}
name=${2-valkey-8}
scripts/servers.sh "$servers" "$name"
export DEHYDRATOR_SERVER="${DEHYDRATOR_SERVER-$(cd "$servers" && pwd)/$name}"
export DEHYDRATOR_MODULE="${DEHYDRATOR_MODULE-$PWD/target/release/libdehydrator.so}"
if [ -z "${DEHYDRATOR_TOP-}" ]; then
    CARGO_TARGET_DIR=target/top cargo build --quiet --release --locked --manifest-path console/Cargo.toml
    export DEHYDRATOR_TOP="$PWD/target/top/release/dehydrator-top"
fi
export DEHYDRATOR_SCREENSHOTS="${DEHYDRATOR_SCREENSHOTS-$PWD/target/top-web-screenshots}"
# Moments on the page are in the reader's time zone.
export TZ=UTC

(cd console && tests/browser/node_modules/.bin/biome ci .)
cd "$place"
exec node --test --test-reporter="${TEST_REPORTER-spec}" ${ONLY:+--test-name-pattern="$ONLY"} reading.test.js page.test.js
