#!/usr/bin/env bash
# Build a Valkey that runs on any Linux of its machine and C library: the server that dehydrator-queue-server, for PyPI
# and npm, brings along.
#
#   scripts/valkey.sh <target> <folder>
#
#       target      x86_64-unknown-linux-gnu, -musl, aarch64-unknown-linux-gnu, -musl. Those of gnu need glibc 2.17
#       folder      gets `valkey-server`, `valkey-cli`, and their licences in `VALKEY-LICENCES`
#
# The source is upstream's archive, as Debian has it, checked by its sum: the same one gives the same program, in whatever
# folder. When Debian has a newer version, take it, for its security fixes: change version and sum. The compiler is zig's, which
# brings each C library along. The server has no TLS.
# OPTIMIZATION=-O1 takes half the time, for tests.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck disable=SC1091
. scripts/apt.sh

version=9.1.2
sum=8e8557da7426a51b4e0fb514a65ef6241dc7c85cb408243af389070abf379cec

target=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
work=$PWD/target/valkey
archive=$work/valkey-$version.tar.gz

machine=${target%%-*}
library=${target##*-}
case $target in
    x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) zig=$machine-linux-gnu.2.17 ;;
    x86_64-unknown-linux-musl | aarch64-unknown-linux-musl) zig=$machine-linux-musl ;;
    *)
        echo "valkey.sh: there is no target $target" >&2
        exit 1
        ;;
esac

mkdir -p "$work"
# One run for each target at a time.
exec 9>"$work/$target.lock"
flock 9

# fetch: has the archive.
fetch() {
    local new=$work/fetched-$target
    echo "Fetching the source of Valkey $version." >&2
    rm -rf "$new"
    mkdir -p "$new"
    apt_folders "$new/apt" sid source
    apt_in "$new/apt" update
    (cd "$new" && apt_in "$new/apt" source --download-only --tar-only valkey)
    if ! mv "$new"/valkey_"$version".orig.tar.gz "$archive"; then
        echo "valkey.sh: Debian has another version than $version by now. Put upstream's archive at $archive, or take that one." >&2
        exit 1
    fi
    rm -rf "$new"
}
[ -e "$archive" ] || fetch
echo "$sum  $archive" | sha256sum --check --quiet

scripts/setup.sh valkey
compiler=$(realpath "$(scripts/zig.sh)/zig")

# Built once, and anew when this script changes.
source=$work/$target
export OPTIMIZATION=${OPTIMIZATION:--O3}
this=$OPTIMIZATION\ $(cat scripts/valkey.sh scripts/zig.sh | sha256sum)
if [ "$(cat "$source/built" 2>/dev/null)" = "$this" ]; then
    cp -p "$source"/out/* "$folder/"
    exit
fi
rm -rf "$source"
mkdir -p "$source/bin" "$source/out"
tar -xzf "$archive" -C "$source" --strip-components=1

# What zig says is undefined behaviour does not end the server. No folder of this machine stands in the program. zig links
# programs for musl statically, which load no module, unless it is told to.
flags="-target $zig -fno-sanitize=undefined -fPIE -ffile-prefix-map=$source=/valkey"
[ "$library" != musl ] || flags="$flags -dynamic"
wrapper() {
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$compiler" "$2" >"$source/bin/$1"
    chmod +x "$source/bin/$1"
}
wrapper cc "cc $flags"
wrapper ar ar
wrapper ranlib ranlib
# Without a repository around it, the build tells no commit.
printf '#!/bin/sh\nexit 1\n' >"$source/bin/git"
chmod +x "$source/bin/git"
export PATH="$source/bin:$PATH"

# Its configure takes the machine that builds for the one that runs it, unless they are told apart. Pages of memory have up
# to 64 KiB on arm64.
jemalloc=--host=$machine-unknown-linux-$library
[ "$machine" != aarch64 ] || jemalloc="$jemalloc --with-lg-page=16"

echo "Building Valkey $version for $target." >&2
# The build tells its time and the name of the machine, unless it is told another time.
if ! SOURCE_DATE_EPOCH=0 ZIG_LOCAL_CACHE_DIR=$work/cache ZIG_GLOBAL_CACHE_DIR=$work/cache \
    JEMALLOC_CONFIGURE_OPTS=$jemalloc make -C "$source/src" -j"$(nproc)" valkey-server valkey-cli CC=cc uname_M="$machine" \
    MALLOC=jemalloc BUILD_TLS=no USE_SYSTEMD=no DEBUG= SERVER_LDFLAGS='-pie -s' >"$source/log" 2>&1; then
    tail -n 40 "$source/log" >&2
    exit 1
fi
install -m 755 "$source/src/valkey-server" "$source/src/valkey-cli" "$source/out/"

# Those of the libraries, and of single files that are somebody else's, which stand in a comment.
{
    cat "$source/COPYING"
    for text in hdr_histogram/COPYING.txt libvalkey/COPYING jemalloc/COPYING fpconv/LICENSE.txt lua/COPYRIGHT; do
        printf '\n=== deps/%s ===\n\n' "$text"
        cat "$source/deps/$text"
    done
    printf '\n=== deps/fast_float ===\n\n'
    awk '!/^\/\// { exit } 1' "$source/deps/fast_float/ffc.h"
    printf '\n=== compiler_rt of zig ===\n\n'
    cat "$(dirname "$compiler")/LICENSE"
    printf '\n=== Single files ===\n'
    # shellcheck disable=SC2016  # the names are awk's
    find "$source/src" "$source/src/modules/lua" "$source/deps/lua/src" "$source/deps/linenoise" -maxdepth 1 -name '*.[ch]' -print0 | LC_ALL=C sort -z |
        LC_ALL=C xargs -0 awk 'BEGIN { RS = "[*]/" } sub(/.*[/][*]/, "") {
            others = $0
            gsub(/Copyright[^\n]*(Redis Ltd|Redis contributors|Valkey|Lua[.]org|in lua[.]h)/, "", others)
            if (others ~ /Copyright/ && !told[$0]++) print
        }'
} >"$source/out/VALKEY-LICENCES"
echo "$this" >"$source/built"
cp -p "$source"/out/* "$folder/"
