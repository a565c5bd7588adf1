#!/bin/sh
# Check and test integrations/go: style, go vet, and tests with real servers.
#
# usage: integrations-go.sh folder-of-servers [--quick]
#
#     --quick     on one server, with a short campaign and without the race detector, in less than a minute
#
# Go and its libraries are Debian's, unpacked by scripts/go.sh: where apt-get has no Debian sources, all is left out. The
# tests with Python use what scripts/integrations-python.sh makes, and those with Node what scripts/integrations-node.sh builds.
set -eu
cd "$(dirname "$0")/.."

scripts/go.sh
if [ ! -x target/go/go ]; then
    echo "integrations/go is left out: $(cat target/go/left-out)" >&2
    exit 0
fi
export DEHYDRATOR_PYTHON="${DEHYDRATOR_PYTHON-$PWD/target/integrations/venv/bin/python}"
[ -x "$DEHYDRATOR_PYTHON" ] || scripts/integrations-python.sh "$1" --fetch
export PYTHONPATH="$PWD/integrations/python/src"
node=$PWD/integrations/node/dist/src
if [ -e "$node/index.js" ]; then
    PATH=$(scripts/node.sh):$PATH
    export DEHYDRATOR_NODE_PACKAGE="$node"
else
    echo "left out: tasks from and to Node, which scripts/integrations-node.sh builds" >&2
fi

# Our package is where its users have it.
module=$(sed -n 's/^module //p' integrations/go/dehydrator/go.mod)
above=target/go/src/$(dirname "$module")
[ ! -L "$above" ] || rm "$above"
mkdir -p "$above"
ln -sfn "$PWD/integrations/go/dehydrator" "target/go/src/$module"

badly=$(GO_TOOL=gofmt target/go/go -l integrations/go)
if [ -n "$badly" ]; then
    echo "integrations-go.sh: not as gofmt writes it: $badly" >&2
    exit 1
fi
version=v$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
if ! grep -q "$module $version\$" integrations/go/dehydrator/oteldehydrator/go.mod; then
    echo "integrations-go.sh: integrations/go/dehydrator/oteldehydrator/go.mod requires another version than $version." >&2
    exit 1
fi
packages="$module $module/oteldehydrator"
# shellcheck disable=SC2086  # lists are meant to be split
target/go/go vet $packages "$module/internal/realserver"

names='redis-7.0 valkey-8'
race=
if [ "${2-}" = --quick ]; then
    names=redis-7.0
    export DEHYDRATOR_QUICK=1
else
    # It needs a C compiler, as the module does.
    race=-race
    export CGO_ENABLED=1
fi
# shellcheck disable=SC2086
scripts/servers.sh "$1" $names
servers=$(cd "$1" && pwd)
export DEHYDRATOR_MODULE="${DEHYDRATOR_MODULE-$PWD/target/release/libdehydrator.so}"
for name in $names; do
    echo "integrations/go on $name"
    # shellcheck disable=SC2086
    DEHYDRATOR_SERVER=$servers/$name target/go/go test $race -count 1 -p 1 -timeout 20m $packages
done
