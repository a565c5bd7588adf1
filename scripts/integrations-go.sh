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

# Both modules are tested as such, by a go.mod that names the folders of their libraries: their go.sum is of the registry's own.
place=$PWD/target/go
for folder in dehydrator dehydrator/oteldehydrator; do
    modfile=$place/$(basename $folder).mod
    sed "s|=> \.\./|=> $PWD/integrations/go/dehydrator|" "integrations/go/$folder/go.mod" >"$modfile"
    # shellcheck disable=SC2013
    for name in $(sed -n 's/^\(require \|\t\)\([a-z]*\.[^ ]*\) v.*/\2/p' "integrations/go/$folder/go.mod" | grep -v '^dehydrator\.invalid'); do
        if ! grep -q "^$name v[^ /]* h1:" "integrations/go/$folder/go.sum"; then
            echo "integrations-go.sh: integrations/go/$folder/go.sum lacks $name: run go mod tidy." >&2
            exit 1
        fi
        # Debian leaves some out.
        [ -e "$place/src/$name/go.mod" ] || printf 'module %s\n\ngo 1.22\n' "$name" >"$place/src/$name/go.mod"
        echo "replace $name => $place/src/$name" >>"$modfile"
    done
done
# tool dehydrator|oteldehydrator words ...: runs a command of Go in that module.
tool() {
    folder=integrations/go/dehydrator
    [ "$1" = dehydrator ] || folder=$folder/$1
    modfile=$place/$1.mod
    command=$2
    shift 2
    (cd "$folder" && GOROOT="$place/usr/lib/go-1.24" GOPATH="$place" GOCACHE="$place/cache" GOPROXY=off GOTOOLCHAIN=local GOENV=off \
        GOFLAGS="-modfile=$modfile" CGO_ENABLED="${CGO_ENABLED-0}" "$place/usr/lib/go-1.24/bin/go" "$command" "$@")
}

badly=$(GO_TOOL=gofmt target/go/go -l integrations/go)
if [ -n "$badly" ]; then
    echo "integrations-go.sh: not as gofmt writes it: $badly" >&2
    exit 1
fi
version=v$(sed -n 's/^\tVersion = "\(.*\)"/\1/p' integrations/go/dehydrator/server.go)
if ! grep -q "/dehydrator $version\$" integrations/go/dehydrator/oteldehydrator/go.mod; then
    echo "integrations-go.sh: integrations/go/dehydrator/oteldehydrator/go.mod requires another version than $version." >&2
    exit 1
fi
# The first two pieces of code on the page compile: a worker, and a client.
page=$PWD/integrations/go/dehydrator/internal/readme/readme.go
awk 'BEGIN { print "package readme\nfunc use(...any) {}\nfunc send(context.Context, string) error { return nil }\nfunc program() {" }
    /^```go$/ { on = ++count <= 2; if (count == 2) print "use(err)\n{" ; next } /^```$/ { on = 0 } on
    END { print "use(id, results, info, count, schedules, letters, err)\n}\n}" }' integrations/go/README.md >"$place/body"
{
    sed 1q "$place/body"
    printf 'import "%s"\n' context os/signal syscall time github.com/redis/go-redis/v9 dehydrator.invalid/source/integrations/go/dehydrator
    sed 1d "$place/body"
} >"$place/readme.go"
echo "{\"Replace\": {\"$page\": \"$place/readme.go\"}}" >"$place/overlay.json"
tool dehydrator build -overlay "$place/overlay.json" ./internal/readme
tool dehydrator vet ./...
tool oteldehydrator vet ./...

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
    export DEHYDRATOR_SERVER="$servers/$name"
    # shellcheck disable=SC2086
    for one in dehydrator oteldehydrator; do tool $one test $race -count 1 -timeout 20m .; done
done
