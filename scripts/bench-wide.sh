#!/bin/sh
# shellcheck disable=SC1091,SC2154
# Measure queues of several keys in the packages for Python and Node.
#
# usage: bench-wide.sh folder-of-servers [option of integrations/bench/wide.py ...]
#
# Dependencies are downloaded into target/integrations/venv and integrations/node/node_modules, as for the tests.
set -eu
cd "$(dirname "$0")/.."

servers=$1
shift
. scripts/packages.sh
scripts/servers.sh "$servers" redis-7.0
export DEHYDRATOR_SERVER="$servers/redis-7.0"
export DEHYDRATOR_MODULE="${DEHYDRATOR_MODULE-$PWD/target/release/libdehydrator.so}"
exec "$venv/bin/python" integrations/bench/wide.py "$@"
