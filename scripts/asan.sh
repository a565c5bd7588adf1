#!/usr/bin/env bash
# Run the module in a server under AddressSanitizer, and, briefer, under valgrind's memcheck: what reads
# or writes memory that is not its own is shown, and fails.
#
#   scripts/asan.sh [asan | memcheck]      (default: one after the other)
#
# Only a server that takes its memory from the C library will do: Debian's Redis 7.0, built here from
# Debian's source package, once (target/asan; remove that to build anew).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh

# What drives it: tests by the beginning of their names, for `cargo test --test <file>`. Not those that
# measure memory or time, those that ask for a release build, and those that start no server.
asan_tests=(
    "server blocking:: cluster:: commands:: errors:: keyspace:: ondue:: persistence:: rede:: replication:: settings::"
    "torture restore:: wander::"
)
# Memcheck is slower by far, and sees what the sanitizer does not: reads of memory that nothing was
# written to.
memcheck_tests=(
    "server commands:: errors:: keyspace:: persistence:: rede::"
)

suite=bookworm
# The same seconds buy more checks with a little optimization.
optimization=1

mkdir -p target/asan
work=$PWD/target/asan
host=$(rustc -vV | sed -n 's/^host: //p')

# One run at a time.
exec 9>"$work/.lock"
flock 9

# source: fetches the server's source and unpacks it. apt-get checks it against Debian's signatures.
source_of_server() {
    [ ! -e "$work/source/src/Makefile" ] || return 0
    echo "Fetching the server's source." >&2
    rm -rf "$work/fetched" "$work/source" "$work/source.new"
    mkdir -p "$work/fetched/packages" "$work/source.new"
    apt_folders "$work/fetched/apt" "$suite" source
    apt_in "$work/fetched/apt" update
    (cd "$work/fetched/packages" && apt_in "$work/fetched/apt" source --download-only redis)
    tar -xzf "$work"/fetched/packages/redis_*.orig.tar.gz -C "$work/source.new" --strip-components=1
    grep -q '^#define REDIS_VERSION "7\.0\.' "$work/source.new/src/version.h"
    mv "$work/source.new" "$work/source"
    rm -rf "$work/fetched"
}

# server <name> [words for make...]: builds one, unless it is there: target/asan/<name>/src/redis-server.
server() {
    local folder=$work/$1
    shift
    [ ! -e "$folder/built" ] || return 0
    source_of_server
    echo "Building a server: $(basename "$folder")." >&2
    rm -rf "$folder"
    cp -r "$work/source" "$folder"
    if ! make -C "$folder/src" -j"$(nproc)" redis-server MALLOC=libc OPTIMIZATION="-O$optimization" \
        USE_SYSTEMD=no "$@" >"$folder/log" 2>&1; then
        tail -n 40 "$folder/log" >&2
        return 1
    fi
    touch "$folder/built"
}

# module: builds the module as the sanitizer wants it. The sanitizer itself is in the server: one for both.
sanitized_module() {
    # An unstable flag of a stable compiler. The target is named, so that the flags do not reach build scripts.
    RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_PROFILE_DEV_OPT_LEVEL=$optimization \
        cargo build --locked --target "$host" --target-dir "$work/module"
    module=$work/module/$host/debug/libdehydrator.so

    local wanted library
    wanted=$(nm -D --undefined-only "$module" | awk '$2 ~ /^__asan_/ { print $2 }' | sort)
    library=$(ldd "$work/sanitized/src/redis-server" | awk '/libasan/ { print $3 }')
    grep -q '^__asan_report_load' <<<"$wanted" || { echo "asan.sh: the module has no checks in it" >&2; return 1; }
    [ -n "$library" ] || { echo "asan.sh: the server has no libasan.so" >&2; return 1; }
    wanted=$(comm -23 <(echo "$wanted") <(nm -D --defined-only "$library" | awk '{ print $3 }' | sort))
    if [ -n "$wanted" ]; then
        echo "asan.sh: the sanitizers of cc and of rustc do not fit. $library lacks:" >&2
        echo "$wanted" >&2
        echo "Build the server with a compiler whose sanitizer is younger: CC=... scripts/asan.sh" >&2
        return 1
    fi
}

# drive <reports> <a line of tests>...: runs them. Fails if one of them does, or if there is a report.
drive() {
    local reports=$1 line file names name known failed=0
    shift
    for line in "$@"; do
        read -r file names <<<"$line"
        known=$(cargo test --quiet --locked --test "$file" -- --list)
        for name in $names; do
            # A test that was renamed must not be left out unseen.
            grep -q "^$name.*: test\$" <<<"$known" || { echo "asan.sh: $file has no test $name" >&2; return 1; }
        done
        # shellcheck disable=SC2086  # the names are meant to be split
        cargo test --quiet --locked --test "$file" -- $names || failed=1
    done
    while IFS= read -r report; do
        echo "--- $report ---"
        head -n 200 "$report"
        failed=1
    done < <(find "$reports" -type f -size +0 | sort | head -n 5) >&2
    return $failed
}

under_asan() {
    server sanitized SANITIZER=address
    sanitized_module
    local reports=$work/reports/asan
    rm -rf "$reports"
    mkdir -p "$reports"
    echo "Under AddressSanitizer:"
    # - Tests discard what a server says on stderr: into files.
    # - A request that is too large gets no memory, as without a sanitizer, and is refused.
    # - The server's own report of a crash does not tell what memory it was.
    ASAN_OPTIONS=log_path=$reports/report:detect_leaks=1:allocator_may_return_null=1:handle_segv=2:malloc_context_size=20 \
        DEHYDRATOR_SERVER=$work/sanitized/src/redis-server DEHYDRATOR_MODULE=$module DEHYDRATOR_DEBUG_MODULE=$module \
        drive "$reports" "${asan_tests[@]}"
}

under_memcheck() {
    server plain
    local reports=$work/reports/memcheck launcher=$work/memcheck
    rm -rf "$reports"
    mkdir -p "$reports"
    # The suppressions are the server's own: its compression reads a table that it has not filled, and then
    # checks what it has read.
    cat >"$launcher" <<END
#!/bin/sh
exec valgrind --quiet --tool=memcheck --error-exitcode=99 --log-file='$reports/report.%p' --num-callers=30 \\
    --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \\
    --suppressions='$work/plain/src/valgrind.sup' '$work/plain/src/redis-server' "\$@"
END
    chmod +x "$launcher"
    echo "Under memcheck:"
    DEHYDRATOR_SERVER=$launcher drive "$reports" "${memcheck_tests[@]}"
}

case ${1:-both} in
    asan) under_asan ;;
    memcheck) under_memcheck ;;
    both)
        under_asan
        under_memcheck
        ;;
    *)
        echo "usage: asan.sh [asan | memcheck]" >&2
        exit 1
        ;;
esac
