#!/bin/sh
# Compare our brokers with the frameworks' own for Redis, in one run; writes docs/benchmarks-frameworks.md.
#
# usage: bench-integrations.sh folder-of-servers [option of integrations/bench ...]
#
# Dependencies are downloaded into target/integrations/venv, which scripts/integrations-python.sh uses too, and integrations/node.
set -eu
cd "$(dirname "$0")/.."

servers=$1
shift
. scripts/packages.sh
"$venv/bin/ruff" check integrations/bench
"$venv/bin/ruff" format --check integrations/bench

scripts/servers.sh "$servers" redis-7.0
exec "$venv/bin/python" integrations/bench --server "$servers/redis-7.0" "$@"
