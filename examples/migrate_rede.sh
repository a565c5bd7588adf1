#!/usr/bin/env bash
# Migrate from ReDe: its dump loads unchanged, with every element, id and deadline.
#
#   examples/migrate_rede.sh [dump.rdb]      (default: a dump of ReDe 0.5 in this repository)
#
# This script is a rehearsal: it starts a server with the module on a copy of the dump, lists the dehydrators, restarts
# the server, and cleans up. To migrate, do the same in the folder of your server: stop it, keep a copy of dump.rdb,
# load this module instead of ReDe in the configuration, and start it. ReDe cannot read the dumps of this module, so you
# need that copy to go back.
#
# In your programs, replace REDE. by DEHYDRATOR.: the arguments and their order are the same.
#
# Prints:
#
#     loaded:
#     db0 binary: 2 elements
#     db0 emptied: 0 elements
#     db0 sessions: 300 elements
#     db0 single: 1 elements
#     db3 in-db-3: 1 elements
#     PULL single only: hello world
#     PUSH single 600000 "hello again" again: OK
#     POLL emptied:
#     after a restart:
#     db0 binary: 2 elements
#     db0 sessions: 300 elements
#     db0 single: 1 elements
#     db3 in-db-3: 1 elements
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
dump=${1:-$root/tests/data/rede-0.5-future.rdb}
server=${DEHYDRATOR_SERVER:-redis-server}
cli=${DEHYDRATOR_CLI:-redis-cli}
module=${DEHYDRATOR_MODULE:-$root/target/release/libdehydrator.so}

data=$(mktemp -d)
trap 'stop; rm -rf "$data"' EXIT

# The server has no port, only a socket in its own folder, so that no other client connects.
ask() { "$cli" -s "$data/redis.sock" "$@"; }

start() {
    "$server" --port 0 --unixsocket "$data/redis.sock" --dir "$data" --logfile "$data/log" \
        --loadmodule "$module" "$@" &
    pid=$!
    # Until the dump is loaded, the server replies with an error.
    until [ "$(ask PING 2>/dev/null)" = PONG ]; do
        if ! kill -0 "$pid" 2>/dev/null; then
            cat "$data/log" >&2
            exit 1
        fi
        sleep 0.05
    done
}

stop() {
    ask SHUTDOWN >/dev/null 2>&1 || true
    wait
}

# Prints every dehydrator of every database, and its number of elements.
show() {
    ask INFO keyspace | sed -n 's/^db\([0-9]*\):.*/\1/p' | while read -r db; do
        ask -n "$db" --scan | LC_ALL=C sort | while read -r key; do
            if [ "$(ask -n "$db" TYPE "$key")" = dehy-type ]; then
                echo "db$db $key: $(ask -n "$db" DEHYDRATOR.LEN "$key") elements"
            fi
        done
    done
}

cp "$dump" "$data/dump.rdb"

# The append-only file should be on, but not at the first start: a server that finds none starts empty and does not read
# the dump. So turn it on after the dump is loaded; the server then writes the file.
start --appendonly no
ask CONFIG SET appendonly yes >/dev/null
while ask INFO persistence | grep -qE '^aof_rewrite_(in_progress|scheduled):1'; do sleep 0.05; done
echo "loaded:"
show

# ReDe kept empty dehydrators. They load, and the first command that takes from them deletes them.
if [ $# = 0 ]; then
    echo "PULL single only: $(ask DEHYDRATOR.PULL single only)"
    echo "PUSH single 600000 \"hello again\" again: $(ask DEHYDRATOR.PUSH single 600000 "hello again" again)"
    echo "POLL emptied:$(ask DEHYDRATOR.POLL emptied)"
fi

stop
start --appendonly yes
echo "after a restart:"
show
