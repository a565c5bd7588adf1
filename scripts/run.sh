#!/usr/bin/env bash
# Start a server with the module, in the foreground, and say how to connect. Ctrl-C stops it; what it
# holds is in the data folder, and there again at the next start.
#
#   PORT=6380 DATA=/some/folder scripts/run.sh [more options of the server]
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
server=${DEHYDRATOR_SERVER:-redis-server}
cli=${DEHYDRATOR_CLI:-redis-cli}
module=$root/target/release/libdehydrator.so
data=${DATA:-$root/data}

give_up() {
    echo "$1" >&2
    exit 1
}

version=$("$server" --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p')
[ "${version:-7}" -ge 7 ] || give_up "$server is of version $version: Redis 7.0 or later, or Valkey, is needed."
[ -e "$module" ] || give_up "There is no $module yet: run \`make\` first."

mkdir -p "$data"
data=$(cd "$data" && pwd)
# The server inherits the lock. Two servers on one folder would ruin each other's files.
exec 9>"$data/.lock"
flock -n 9 || give_up "A server is using $data already: stop it, or choose another folder, as in \`make run DATA=/tmp/other\`."

is_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

note=
if [ -n "${PORT:-}" ]; then
    port=$PORT
    [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || give_up "'$port' is no port."
    ! is_taken "$port" || give_up "Port $port is in use: choose another, as in \`make run PORT=6390\`."
else
    for port in {6379..6399}; do
        is_taken "$port" || break
    done
    [ "$port" = 6379 ] || note="
  (Port 6379 is another server's: perhaps the one that Debian starts with the package.)"
fi
flag=""
others=""
[ "$port" = 6379 ] || {
    flag=" -p $port"
    others="
  For the others: make top PORT=$port, and export REDIS_URL=redis://127.0.0.1:$port for the examples.
"
}

# A server whose append-only file is on, and does not exist yet, starts empty even if there is a dump, and
# would overwrite that one day. So the dump is loaded with the file off, and then the file is written. It is
# there once its manifest is: the folder alone is what a server leaves that died before.
append=()
if [ -e "$data/dump.rdb" ] && [ ! -e "$data/appendonlydir/appendonly.aof.manifest" ]; then
    append=(--appendonly no)
    (
        for _ in {1..600}; do
            # This is the server by then: another one on its port is none of ours.
            kill -0 $$ 2>/dev/null || exit 0
            [ "$("$cli" -p "$port" CONFIG SET appendonly yes 2>&1)" = OK ] && exit
            sleep 0.5
        done
        echo "run.sh: the append-only file is still off: CONFIG SET appendonly yes" >&2
    ) 9>&- &
fi

cat <<TEXT

  Dehydrator is at 127.0.0.1:$port, its data in $data
$note
    redis-cli$flag
    127.0.0.1:$port> DEHYDRATOR.PUSH orders 10000 "capture payment 17" order:17

$others
  Ctrl-C stops it.

TEXT
# A copy, made anew each time: CONFIG REWRITE writes into the file that the server was given, also that it
# loads the module, and a server that is told so twice does not start.
cp "$root/redis.conf" "$data/redis.conf"
exec "$server" "$data/redis.conf" --port "$port" --dir "$data" --loadmodule "$module" \
    "${append[@]}" "$@"
