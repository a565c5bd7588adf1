#!/bin/sh
# Install what building, running and testing need and this machine lacks: a C compiler, libclang (for
# the bindings to the server's module API), redis-server and redis-cli. Says nothing when all is there.
#
# Where it may not install, it prints the one command that would, and fails.
set -eu

if ! command -v cargo >/dev/null; then
    echo "Rust is missing: see https://rustup.rs, then open a new shell." >&2
    exit 1
fi

missing=
need() { missing="$missing $1"; }

command -v cc >/dev/null || need build-essential
find /usr/lib /usr/local/lib "${LIBCLANG_PATH:-/usr/lib}" -name 'libclang*.so*' 2>/dev/null | grep -q . ||
    need "clang libclang-dev"
# Whoever names programs of their own needs none from us.
command -v "${DEHYDRATOR_SERVER:-redis-server}" >/dev/null || need redis-server
command -v "${DEHYDRATOR_CLI:-redis-cli}" >/dev/null || need redis-tools

[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "Please install, by the names that your system has for them:$missing" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root=sudo
else
    echo "Please run, as root:  apt-get update && apt-get install -y$missing" >&2
    exit 1
fi

echo "Installing:$missing"
$as_root apt-get -q update
# shellcheck disable=SC2086  # the list is meant to be split
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing
