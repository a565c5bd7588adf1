#!/bin/sh
# shellcheck disable=SC2086  # lists of names are meant to be split
#
# Run the tests with real servers on several servers: see scripts/servers.sh for their names.
#
# usage: test-servers.sh folder [name ...]      (`all`: every one; default: the default of servers.sh)
#
#     SUITES      default: server torture
#     THREADS     tests of the server suite at a time
#     BUILT       a file with what `cargo test --no-run` printed; default: they are built
#
# Unavailable servers are omitted and reported. If that would omit all versions of Redis, or all of Valkey, redis-8 or
# valkey-8 is used instead; if that fails too, the script fails. At the end, there is a line for each server.
set -eu
cd "$(dirname "$0")/.."

dest=$1
shift
fetched=$(scripts/servers.sh "$dest" "$@") || true
echo "$fetched"
dest=$(cd "$dest" && pwd)

left_out=$(echo "$fetched" | sed -n 's/^left out: //p')
for family in redis valkey; do
    case $left_out in
        *$family-*)
            echo "$fetched" | grep -q "^$dest/$family-[0-9]" && continue
            instead=$(scripts/servers.sh "$dest" "$family-8" | grep "^$dest/$family-8 ") || {
                echo "test-servers.sh: there is no $family at all" >&2
                exit 1
            }
            fetched="$fetched
$instead"
            ;;
    esac
done
servers=$(echo "$fetched" | sed -n "s|^$dest/\([a-z]*-[0-9.]*\) .*|\1|p")

suites=${SUITES:-server torture}
built=${BUILT:-target/tests-built}
[ -n "${BUILT:-}" ] || cargo test --locked --no-run --test server --test torture 2>"$built" || { cat "$built" >&2; exit 1; }
failed=0
summary=
# The server tests mostly wait; torture works, and waits for its clients.
waiting=${THREADS:-$(($(nproc) * 3 + 1))}
working=$(($(nproc) + 1))
for server in $servers; do
    echo "--- $server"
    log=$dest/$server.log
    began=$(date +%s)
    # All suites run, even after a failure in one; the status is that of the tests, not of `tee`.
    {
        status=0
        for suite in $suites; do
            threads=$working
            [ "$suite" = torture ] || threads=$waiting
            program=$(sed -n "s|.*Executable tests/$suite/main.rs (\(.*\))|\1|p" "$built")
            DEHYDRATOR_SERVER=$dest/$server DEHYDRATOR_CLI=$dest/redis-cli \
                "$program" --test-threads "$threads" 2>&1 || status=$?
        done
        echo "status: $status"
    } | tee "$log"
    tail -n 1 "$log" | grep -q '^status: 0$' || failed=1
    results=$(sed -n 's/^test result: [^.]*\. \([0-9]* passed; [0-9]* failed\).*/\1/p' "$log" | paste -sd, - | sed "s|,|, |g")
    skipped=$(grep -c '^skipped: ' "$log" || true)
    [ "$skipped" = 0 ] || results="$results, $skipped of them skipped"
    version=$(echo "$fetched" | sed -n "s|^$dest/$server ||p")
    summary="$summary
$server $version: ${results:-no result} ($suites), $(($(date +%s) - began)) s"
done
echo "$summary"
for server in $left_out; do
    echo "left out: $server"
done
exit $failed
