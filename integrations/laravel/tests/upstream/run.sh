#!/bin/sh
# Run Laravel's own tests of its queue in Redis with this driver in its place.
#
# usage: run.sh checkout-of-laravel-framework
#
# DEHYDRATOR_SERVER and DEHYDRATOR_MODULE are the server. Debian's php-mockery has to be there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

folder=$(mktemp -d)
# shellcheck disable=SC2016  # these are PHP's variables
port=$(php -r '$it = stream_socket_server("tcp://127.0.0.1:0"); echo substr(strrchr(stream_socket_get_name($it, false), ":"), 1);')
"$DEHYDRATOR_SERVER" --port "$port" --save '' --dir "$folder" --loadmodule "$DEHYDRATOR_MODULE" >"$folder/log" 2>&1 &
server=$!
trap 'kill $server; rm -rf "$folder"' EXIT
until grep -q 'Ready to accept' "$folder/log"; do
    kill -0 $server
    sleep 0.1
done

left_out=$(sed -n 's/^\([^#][^ ]*\) .*/\1/p' "$here/exceptions.txt" | paste -sd '|' -)
REDIS_HOST=127.0.0.1 REDIS_PORT=$port phpunit --no-configuration --do-not-cache-result --bootstrap "$here/bootstrap.php" \
    --filter "/::(?!($left_out)\\b)/" "$1/tests/Queue/RedisQueueIntegrationTest.php"
