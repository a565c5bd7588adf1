#!/bin/sh
# Run the tests of integrations/: ours, and those of the frameworks, from their source distributions. Prints how many
# pass, fail, and are omitted.
#
# usage: integrations-python.sh folder-of-servers [--quick | --oldest | --fetch]
#
#     --quick     some of them, on one server, in less than two minutes
#     --fetch     none: only what the tests of other packages use, which speak with ours
#     --oldest    those of kombu and Celery, in the oldest versions that are supported: requirements-oldest.txt
#
# Everything is downloaded into target/integrations, in the versions of integrations/python/requirements.txt.
set -eu
cd "$(dirname "$0")/.."

place=$PWD/target/integrations
list=integrations/python/requirements.txt
names='redis-7.0 valkey-8'
frameworks='kombu celery dramatiq'
if [ "${2-}" = --quick ]; then
    names=redis-7.0
    frameworks=kombu
elif [ "${2-}" = --oldest ]; then
    place=$place/oldest
    list=integrations/python/requirements-oldest.txt
    frameworks='kombu celery'
fi

scripts/setup.sh python
if ! cmp -s "$list" "$place/made-from"; then
    rm -rf "$place"
    mkdir -p "$place/sources"
    python3 -m venv "$place/venv"
    # Python compiles modules when they are used.
    "$place/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile -r "$list"
    cp "$list" "$place/made-from"
fi
pip() { "$place/venv/bin/pip" "$@" --quiet --disable-pip-version-check --no-deps --no-build-isolation; }
pip install --editable integrations/python
[ "${2-}" != --fetch ] || exit 0
# One asks for Dramatiq 1, which our broker does not support, and the other, celery-exporter, for older versions.
[ "${2-}" = --oldest ] || pip install --ignore-requires-python dramatiq-dashboard==0.4.0 prometheus-exporter-celery==0.11.2
# The frameworks whose own tests run. They are unpacked, not installed: pip would require their build tools.
for framework in $frameworks; do
    [ -z "$(find "$place/sources" -maxdepth 1 -name "$framework-*")" ] || continue
    pip download --no-binary :all: --dest "$place/fetched" "$(grep "^$framework==" "$list")"
    tar -xzf "$place/fetched/$framework"-*.tar.gz -C "$place/sources"
    rm -r "$place/fetched"
done

[ "${2-}" = --oldest ] || (
    cd integrations/python
    "$place/venv/bin/ruff" check .
    "$place/venv/bin/ruff" format --check .
    "$place/venv/bin/mypy"
)

servers=$1
# shellcheck disable=SC2086  # the list is meant to be split
scripts/servers.sh "$servers" $names
servers=$(cd "$servers" && pwd)
export DEHYDRATOR_MODULE="${DEHYDRATOR_MODULE-$PWD/target/release/libdehydrator.so}"
paths=
for name in $names; do paths="$paths $servers/$name"; done
# shellcheck disable=SC2086
exec "$place/venv/bin/python" integrations/python/tests/upstream/run.py ${2+"$2"} "$place/sources" $paths
