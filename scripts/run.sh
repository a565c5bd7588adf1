#!/bin/sh
# Start a server with the module, in the foreground, and say how to connect. Ctrl-C stops it; what it
# holds is in the data folder, and there again at the next start.
#
#   run.sh [--port <port>] [--dir <folder>] [more options of the server]
#
# Without them: the port and the folder that the variables PORT and DATA name; the first free port from 6379 on, and `data`,
# in a clone of the repository, or here. The packages for Python and Node bring it along, as `dehydrator-server`: there the
# server, its client, the module and redis.conf are in the same folder.
set -eu

here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
if [ -e "$here/valkey-server" ]; then
    server=$here/valkey-server
    cli=$here/valkey-cli
    module=$here/libdehydrator.so
    settings=$here/redis.conf
    data=${DATA:-data}
    client=dehydrator-cli
    other_data='dehydrator-server --dir /tmp/other'
    other_port='dehydrator-server --port 6390'
else
    root=$(dirname "$here")
    server=${DEHYDRATOR_SERVER:-redis-server}
    cli=${DEHYDRATOR_CLI:-redis-cli}
    module=$root/target/release/libdehydrator.so
    settings=$root/redis.conf
    data=${DATA:-$root/data}
    client=redis-cli
    other_data='make run DATA=/tmp/other'
    other_port='make run PORT=6390'
fi
port=${PORT:-}

give_up() {
    echo "$1" >&2
    exit 1
}

# The other options go round, to the end of the list.
count=$#
while [ "$count" -gt 0 ]; do
    case $1 in
        --port | --dir)
            [ "$count" -gt 1 ] || give_up "$1 needs a value."
            [ "$1" = --dir ] && data=$2 || port=$2
            shift 2
            count=$((count - 2))
            ;;
        -h | --help)
            sed '1d; /^set /,$d; s/^# \{0,1\}//' "$0"
            exit
            ;;
        *)
            set -- "$@" "$1"
            shift
            count=$((count - 1))
            ;;
    esac
done

version=$("$server" --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p')
[ "${version:-7}" -ge 7 ] || give_up "$server is of version $version: Redis 7.0 or later, or Valkey, is needed."
[ -e "$module" ] || give_up "There is no $module yet: run \`make\` first."

mkdir -p "$data"
data=$(cd "$data" && pwd)
# The server inherits the lock. Two servers on one folder would ruin each other's files.
exec 9>"$data/.lock"
flock -n 9 || give_up "A server is using $data already: stop it, or choose another folder, as in \`$other_data\`."

# What listens there need not be a server that answers.
is_taken() { ! timeout 1 "$cli" -p "$1" PING 2>&1 | grep -q 'Could not connect'; }

note=
if [ -n "$port" ]; then
    case $port in
        0* | *[!0-9]* | ??????*) give_up "'$port' is no port." ;;
    esac
    ! is_taken "$port" || give_up "Port $port is in use: choose another, as in \`$other_port\`."
else
    port=6379
    while is_taken "$port" && [ "$port" -lt 6399 ]; do port=$((port + 1)); done
    [ "$port" = 6379 ] || note="
  (Port 6379 is another server's: perhaps the one that Debian starts with the package.)"
fi
flag=
others=
if [ "$port" != 6379 ]; then
    flag=" -p $port"
    [ "$client" != redis-cli ] || others="
  For the others: make top PORT=$port, and export REDIS_URL=redis://127.0.0.1:$port for the examples.
"
fi

# A server whose append-only file is on, and does not exist yet, starts empty even if there is a dump, and
# would overwrite that one day. So the dump is loaded with the file off, and then the file is written. It is
# there once its manifest is: the folder alone is what a server leaves that died before.
append=
if [ -e "$data/dump.rdb" ] && [ ! -e "$data/appendonlydir/appendonly.aof.manifest" ]; then
    append=--appendonly
    (
        tries=600
        # This is the server by then: another one on its port is none of ours.
        while [ "$tries" -gt 0 ] && kill -0 $$ 2>/dev/null; do
            [ "$("$cli" -p "$port" CONFIG SET appendonly yes 2>&1)" != OK ] || exit 0
            sleep 0.5
            tries=$((tries - 1))
        done
        [ "$tries" -gt 0 ] || echo "run.sh: the append-only file is still off: CONFIG SET appendonly yes" >&2
    ) 9>&- &
fi

cat <<TEXT

  Dehydrator is at 127.0.0.1:$port, its data in $data
$note
    $client$flag
    127.0.0.1:$port> DEHYDRATOR.PUSH orders 10000 "capture payment 17" order:17

$others
  Ctrl-C stops it.

TEXT
# A copy, made anew each time: CONFIG REWRITE writes into the file that the server was given, also that it
# loads the module, and a server that is told so twice does not start.
cp "$settings" "$data/redis.conf"
exec "$server" "$data/redis.conf" --port "$port" --dir "$data" --loadmodule "$module" ${append:+"$append" no} "$@"
