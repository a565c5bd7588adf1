#!/bin/sh
#
# Test the patches of this folder: apply each to the sources of its project, and compare what the monitor shows with the truth,
# in random states, without what our packages change in it. The same test must fail on the sources without the patch.
#
# usage: test.sh server
#
#     server      the path of a redis-server, such as target/servers/redis-7.0
#
# Needs what `make test-integrations` makes: target/integrations, target/integrations-sidekiq. Flower, kombu and rq-dashboard
# are downloaded; the own tests of Flower and rq-dashboard are run too. Others are tested if they are there:
#
#     CELERY_EXPORTER_SOURCES     a checkout of celery-exporter, of the commit that README.md names
#     UNIQUE_JOBS_SOURCES         a checkout of sidekiq-unique-jobs, v8.1.0
#     THOR_LIB                    the folder `lib` of the gem thor, which sidekiq-unique-jobs requires
set -eu
server=$(realpath "$1")
patches=$(cd "$(dirname "$0")" && pwd)
cd "$patches/../.."
root=$PWD
python=$root/target/integrations/venv/bin/python
ruby=$root/target/integrations-sidekiq/7.3/ruby
export DEHYDRATOR_SERVER="$server" DEHYDRATOR_MODULE="${DEHYDRATOR_MODULE-$root/target/release/libdehydrator.so}"
export PYTHONDONTWRITEBYTECODE=1

work=$(mktemp -d)
own_server=
trap '[ -z "$own_server" ] || kill "$own_server"; rm -rf "$work"' EXIT

# Our package without what it changes for monitors.
cp -r integrations/python/src "$work/package"
package=$work/package/dehydrator_queue
printf 'def teach(transport):\n    pass\n' >"$package/kombu/flower.py"
sed -i '/^        client\.llen = self\._llen$/d' "$package/kombu/channel.py"
if grep -q 'client\.llen =' "$package/kombu/channel.py"; then exit 1; fi
echo 'RQ_DASHBOARD_QUEUE_CLASS = "dehydrator_queue.rq.Queue"' >"$package/rq_dashboard.py"

# monitors <folder of sources> <test> <file>: runs a test on a monitor, with all that has been patched until now.
monitors() {
    (
        cd integrations/python/tests
        PYTHONPATH="$1:$work/kombu-5.7.0:$work/flower-2.2.0:$work/package:$work/dependencies:$root/integrations/python/tests" \
            "$python" -m pytest -q --no-header -p no:cacheprovider -x -k "$2" "$3"
    ) >"$work/log" 2>&1
}

# reaper <folder of sources> <test> <file>: runs a test on the reaper.
reaper() {
    SIDEKIQ_RUBY=$ruby "$ruby" -W0 -I "$THOR_LIB" -I "$1/lib" -I integrations/sidekiq/lib \
        -r "$patches/without_our_patch.rb" "$3" --name "$2" >"$work/log" 2>&1
}

# compare <project> <folder of sources> <monitors | reaper> <test> <file>: applies the patch between two runs of a test.
compare() {
    if "$3" "$2" "$4" "$5"; then
        echo "$1: the test passes without the patch" >&2
        exit 1
    fi
    grep -q 'AssertionError\|HTTPError\|TimeoutError\|1) Failure' "$work/log" || { cat "$work/log"; exit 1; }
    patch -s -p1 -d "$2" <"$patches/$1.patch"
    "$3" "$2" "$4" "$5" || { cat "$work/log"; exit 1; }
    echo "$1: $(tail -n 1 "$work/log")"
}

cd "$work"
"$python" -m pip download -q --no-deps --no-binary :all: --no-build-isolation flower==2.2.0 kombu==5.7.0 rq-dashboard==0.9.0
for archive in *.tar.gz; do
    tar xzf "$archive"
done
cd "$root"

tests=$root/integrations/python/tests/test_monitors.py
compare flower "$work/flower-2.2.0" monitors 'flower and options0' "$tests"
(cd "$work/flower-2.2.0" && PYTHONPATH=. "$python" -W ignore -m tests.unit) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
echo "flower's own tests: $(grep '^Ran ' "$work/log")"

compare kombu "$work/kombu-5.7.0" monitors 'flower and options1' "$tests"

dashboard=$work/rq_dashboard-0.9.0
compare rq-dashboard "$dashboard" monitors 'rq_dashboard' "$tests"
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$server" --port "$port" --bind 127.0.0.1 --save '' >"$work/server.log" 2>&1 &
own_server=$!
sed -i "s/redis\.Redis()/redis.Redis(port=$port)/; s#redis://127.0.0.1'#redis://127.0.0.1:$port'#" "$dashboard/tests/test_basic.py"
(cd "$dashboard" && PYTHONPATH=. "$python" -m pytest -q --no-header -p no:cacheprovider tests) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
echo "rq-dashboard's own tests: $(tail -n 1 "$work/log")"

if [ -n "${CELERY_EXPORTER_SOURCES-}" ]; then
    cp -r "$CELERY_EXPORTER_SOURCES" "$work/celery-exporter"
    "$python" -m pip install -q --no-deps --target "$work/dependencies" loguru==0.7.3 waitress==3.0.2
    compare celery-exporter "$work/celery-exporter" monitors exporter_counts "$patches/test_celery_exporter.py"
else
    echo "left out: celery-exporter (CELERY_EXPORTER_SOURCES)"
fi

if [ -n "${UNIQUE_JOBS_SOURCES-}" ]; then
    cp -r "$UNIQUE_JOBS_SOURCES" "$work/unique-jobs"
    compare sidekiq-unique-jobs "$work/unique-jobs" reaper test_the_reaper_deletes_the_locks_of_lost_jobs_alone \
        integrations/sidekiq/tests/test_unique_jobs.rb
else
    echo "left out: sidekiq-unique-jobs (UNIQUE_JOBS_SOURCES)"
fi
