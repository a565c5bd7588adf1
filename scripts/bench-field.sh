#!/bin/sh
# shellcheck disable=SC1091,SC2154
# Compare queues beyond this project with Dehydrator, in one run; writes docs/benchmarks.md.
#
# usage: bench-field.sh folder-of-servers [option of benches/field ...]
#
# beanstalkd, PostgreSQL and RabbitMQ are Debian's. NATS and the clients in Python are downloaded into the venv that
# scripts/integrations-python.sh uses, BullMQ into integrations/node, Graphile Worker into benches/field, and pgmq's SQL
# comes with the program that installs it.
set -eu
cd "$(dirname "$0")/.."

pgmq=0.33.0

servers=$1
shift
. scripts/packages.sh
$pip install -r benches/field/requirements.txt
npm ci --prefix benches/field --ignore-scripts --no-audit --no-fund --loglevel=error
"$venv/bin/ruff" check integrations/bench benches/field
"$venv/bin/ruff" format --check integrations/bench benches/field

cargo install pgmq --quiet --version "$pgmq" --locked --features cli,install-sql-embedded --root target/field
scripts/servers.sh "$servers" redis-7.0
export PYTHONPATH=integrations/bench
exec "$venv/bin/python" benches/field --redis "$servers/redis-7.0" --pgmq target/field/bin/pgmq-cli "$@"
