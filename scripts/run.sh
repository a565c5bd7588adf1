#!/usr/bin/env bash
# Start a server with the module, in the foreground, and say how to connect. Ctrl-C stops it; what it
# holds is in the data folder, and there again at the next start.
#
#   PORT=6380 DATA=/some/folder scripts/run.sh [more options of the server]
set -euo pipefail
cd "$(dirname "$0")/.."

server=${DEHYDRATOR_SERVER:-redis-server}
module=$PWD/target/release/libdehydrator.so
data=${DATA:-$PWD/data}

if [ ! -e "$module" ]; then
    echo "There is no $module yet: run \`make\` first." >&2
    exit 1
fi

is_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

if [ -n "${PORT:-}" ]; then
    port=$PORT
    if is_taken "$port"; then
        echo "Port $port is in use: choose another, as in \`make run PORT=6390\`." >&2
        exit 1
    fi
else
    # The packaged redis-server may be running on the usual one.
    for port in {6379..6399}; do
        is_taken "$port" || break
    done
fi

mkdir -p "$data"
flag=
[ "$port" = 6379 ] || flag=" -p $port"
cat <<TEXT

  Dehydrator is at 127.0.0.1:$port, its data in $data

    redis-cli$flag
    127.0.0.1:$port> DEHYDRATOR.PUSH orders 10000 "capture payment 17" order:17

  Ctrl-C stops it.

TEXT
exec "$server" "$PWD/redis.conf" --port "$port" --dir "$data" --loadmodule "$module" "$@"
