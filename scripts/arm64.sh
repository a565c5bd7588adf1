#!/usr/bin/env bash
# Build the module for Linux on arm64, on x86-64, and test it there under qemu:
#
#   - the unit tests, built for arm64;
#   - the sessions in redis-cli, with every command, on Debian's Redis for arm64;
#   - replication between such a server and one of this machine's architecture: the digests of primary and
#     replica must be equal, in both directions.
#
# The servers are unpacked into target/servers-arm64. See scripts/cross.sh for the build.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
other=$PWD/target/servers-arm64
servers=${SERVERS_DIR:-target/servers}

[ "$(uname -m)" = x86_64 ] || {
    echo "arm64.sh: this runs on x86-64; on arm64, use \`make\` and \`make test\`" >&2
    exit 1
}
scripts/servers.sh "$servers" redis-8
ARCHITECTURE=arm64 scripts/servers.sh "$other" redis-8
servers=$(cd "$servers" && pwd)

# Where programs of that architecture look for their loader.
ln -sfn usr/lib "$other/trixie/lib"
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L $other/trixie" scripts/cross.sh --tests $target
scripts/cross.sh $target

echo "--- a primary on x86-64 and its replica on arm64, and the other way round ($(date +%T))"
module=$PWD/target/cross/$target/libdehydrator.so
export DEHYDRATOR_CLI=$servers/redis-cli
# Both servers have the same version; otherwise one could not load what the other saves.
DEHYDRATOR_SERVER=$servers/redis-8 DEHYDRATOR_OTHER_SERVER=$other/redis-8 DEHYDRATOR_OTHER_MODULE=$module \
    cargo test --locked --test server -- --ignored --nocapture --test-threads 1 other_architecture
echo "--- sessions on arm64 ($(date +%T))"
# One by one: in parallel, they are so slow under qemu that elements come due too early for the tests.
DEHYDRATOR_SERVER=$other/redis-8 DEHYDRATOR_MODULE=$module \
    cargo test --locked --test server -- --test-threads 1 session::
