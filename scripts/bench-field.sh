#!/bin/sh
# shellcheck disable=SC1091,SC2154
# Compare queues beyond this project with Dehydrator, in one run; writes docs/benchmarks.md.
#
# usage: bench-field.sh folder-of-servers [option of integrations/bench/field ...]
#
# beanstalkd, PostgreSQL and RabbitMQ are Debian's. NATS and the clients in Python are downloaded into the venv that
# scripts/integrations-python.sh uses, BullMQ into integrations/node, Graphile Worker into integrations/bench/field, and pgmq's SQL
# comes with the program that installs it.
set -eu
cd "$(dirname "$0")/.."

pgmq=0.33.0

servers=$1
shift
. scripts/packages.sh
$pip install -r integrations/bench/field/requirements.txt
npm ci --prefix integrations/bench/field --ignore-scripts --no-audit --no-fund --loglevel=error
"$venv/bin/ruff" check integrations/bench
"$venv/bin/ruff" format --check integrations/bench

cargo install pgmq --quiet --version "$pgmq" --locked --features cli,install-sql-embedded --root target/field
scripts/servers.sh "$servers" redis-7.0
export PYTHONPATH=integrations/bench
exec "$venv/bin/python" integrations/bench/field --redis "$servers/redis-7.0" --pgmq target/field/bin/pgmq-cli "$@"
