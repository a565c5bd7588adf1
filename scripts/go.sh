#!/bin/sh
# shellcheck disable=SC1091
#
# Unpack Go, and the libraries that our programs in Go use: target/go has `go`, which finds them without the network.
# Does nothing if it is there.
#
#     Go 1.24 and OpenTelemetry 1.31, of Debian trixie; go-redis 9.17 and redigo, of sid
#
# They are downloaded by apt-get with its own folders, and not installed. They are omitted if apt-get has no Debian
# sources, as on Ubuntu: then target/go contains `left-out`.
set -eu
cd "$(dirname "$0")/.."
. scripts/apt.sh

place=target/go
! cmp -s scripts/go.sh "$place/made" || exit 0
rm -rf "$place"
if [ "$(sed -n 's/^ID=//p' /etc/os-release)" != debian ]; then
    mkdir -p "$place"
    echo "$place is left out: its packages are Debian's." | tee "$place/left-out" >&2
    cp scripts/go.sh "$place/made"
    exit 0
fi

# The language too: go-redis 9.17 needs Go 1.21, and bookworm has 1.19. Later versions of OpenTelemetry need Go 1.25.
debian "$place" trixie golang-1.24-go golang-1.24-src golang-opentelemetry-otel-dev golang-github-go-logr-logr-dev \
    golang-github-go-logr-stdr-dev golang-github-google-uuid-dev golang-golang-x-sys-dev
debian "$place" sid golang-github-redis-go-redis-dev golang-github-cespare-xxhash-v2-dev \
    golang-github-dgryski-go-rendezvous-dev golang-github-gomodule-redigo-dev
# Debian packs it without the version suffix of its name.
mkdir -p "$place/src/github.com/redis/go-redis"
mv "$place/usr/share/gocode/src/github.com/redis/go-redis" "$place/src/github.com/redis/go-redis/v9"
cp -R "$place"/usr/share/gocode/src/. "$place/src"
# GOPATH has the libraries, and no network is used.
cat >"$place/go" <<'SH'
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
export GOROOT="$here/usr/lib/go-1.24" GOPATH="$here" GOCACHE="$here/cache"
export GO111MODULE=off GOTOOLCHAIN=local GOENV=off GOFLAGS= CGO_ENABLED="${CGO_ENABLED-0}"
exec "$GOROOT/bin/${GO_TOOL-go}" "$@"
SH
chmod +x "$place/go"
cp scripts/go.sh "$place/made"
