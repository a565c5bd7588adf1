#!/bin/sh
# Check and test integrations/node: types, style, and tests with real servers, by ioredis and node-redis.
#
# usage: integrations-node.sh folder-of-servers [--quick]
#        integrations-node.sh --fetch
#
#     --quick     some of them, on one server, in less than a minute
#     --fetch     no tests: only what the package is built with
#
# What it needs is fetched by npm, in the versions that integrations/node/package-lock.json pins.
set -eu
cd "$(dirname "$0")/.."

node=$(scripts/node.sh)
PATH=$node:$PATH

place=integrations/node
# A lock file that names a registry sends everybody to that one.
if grep -q '"resolved"' "$place/package-lock.json"; then
    echo "$place/package-lock.json names a registry: npm install with $place/.npmrc leaves that out." >&2
    exit 1
fi
if ! cmp -s "$place/package-lock.json" "$place/node_modules/.made-from"; then
    npm ci --prefix "$place" --ignore-scripts --no-audit --no-fund --loglevel=error
    cp "$place/package-lock.json" "$place/node_modules/.made-from"
fi

[ "$1" != --fetch ] || exit 0
servers=$1
names='redis-7.0 valkey-8'
[ -z "${2-}" ] || names=redis-7.0
# shellcheck disable=SC2086  # the list is meant to be split
scripts/servers.sh "$servers" $names
servers=$(cd "$servers" && pwd)
export DEHYDRATOR_MODULE="${DEHYDRATOR_MODULE-$PWD/target/release/libdehydrator.so}"
[ "${2-}" != --quick ] || export DEHYDRATOR_QUICK=1

cd "$place"
node_modules/.bin/biome ci .
rm -rf dist
npm run --silent build
beside=3
[ "${2-}" != --quick ] || beside=2
for name in $names; do
    echo "integrations/node on $name"
    DEHYDRATOR_SERVER=$servers/$name node --test --test-timeout=600000 --test-concurrency=$beside --test-reporter="${TEST_REPORTER-dot}" dist/tests/*.test.js
done
