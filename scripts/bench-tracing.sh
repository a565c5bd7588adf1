#!/bin/sh
# shellcheck disable=SC1091,SC2154
# Measure what OpenTelemetry costs a worker of the package for Python, and one of that for Node.
#
# usage: bench-tracing.sh folder-of-servers [option of integrations/bench/tracing.py ...]
#
# Dependencies are downloaded into target/integrations/venv and integrations/node/node_modules, as for the tests.
set -eu
cd "$(dirname "$0")/.."

servers=$1
shift
. scripts/packages.sh
scripts/servers.sh "$servers" redis-7.0
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$servers/redis-7.0" --port "$port" --bind 127.0.0.1 --save '' --dir "$work" \
    --loadmodule "${DEHYDRATOR_MODULE-$PWD/target/release/libdehydrator.so}" >"$work/log" &
server=$!
tries=100
until "$servers/redis-cli" -p "$port" ping >"$work/pong" 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { cat "$work/log"; exit 1; }
    sleep 0.1
done
echo "Python"
"$venv/bin/python" integrations/bench/tracing.py "$port" "$@"
echo "Node $(node --version)"
node integrations/node/dist/bench/tracing.js "$port" "$@"
