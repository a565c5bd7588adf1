#!/bin/sh
# Run Sidekiq's own tests of the client, the sets, retries and the page with the gem.
#
# usage: run.sh checkout-of-sidekiq
#
# With RELIABLE=1, they run with `reliable!`. SIDEKIQ_RUBY finds that version; DEHYDRATOR_SERVER and DEHYDRATOR_MODULE are
# the server. Debian's ruby-activejob, ruby-actionmailer, ruby-railties and ruby-rack-test have to be there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"

folder=$(mktemp -d)
port=$("$SIDEKIQ_RUBY" -W0 -rsocket -e 'puts TCPServer.open("127.0.0.1", 0).addr[1]')
"$DEHYDRATOR_SERVER" --port "$port" --save '' --dir "$folder" --loadmodule "$DEHYDRATOR_MODULE" >"$folder/log" 2>&1 &
server=$!
trap 'kill $server; rm -rf "$folder"' EXIT
until grep -q 'Ready to accept' "$folder/log"; do
    kill -0 $server
    sleep 0.1
done

left_out=$(sed -n 's/^\([^#].*[^ ]\)   *[^ ].*/\1/p' "$here/exceptions.txt" ${RELIABLE:+"$here/exceptions-reliable.txt"} | paste -sd '|' -)
failed=0
for what in client scheduled scheduling api retry dead_set web; do
    file=test/test_$what.rb
    [ -e "$file" ] || file=test/${what}_test.rb
    echo "Sidekiq's own: $file"
    MT_NO_PLUGINS=1 REDIS_URL=redis://127.0.0.1:$port/15 "$SIDEKIQ_RUBY" -W0 -I "$here" -I "$here/../../lib" -I test \
        "$file" -n "/^(?!.*($left_out))/" || failed=1
done
exit $failed
