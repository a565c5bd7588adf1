#!/usr/bin/env bash
# Run the module in a server under AddressSanitizer and, with fewer tests, under valgrind's memcheck. Invalid reads and
# writes of memory are reported, and fail.
#
#   scripts/asan.sh [quick | asan | memcheck]      (default: the last two, one after the other)
#
# The sanitizer needs a server that uses the allocator of the C library: Redis 7.0, and Valkey 9, which differs in some
# ways (see scripts/source.sh). Memcheck uses Debian's own redis-server, whose allocator is a library that valgrind
# replaces.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

# The tests, by prefixes of their names, for `cargo test --test <file>`: not those that measure memory or time, that
# need a release build or several builds, or that start no server.
asan_tests=(
    "server aligned:: faults:: listening:: blocking:: hangup:: refused:: subscribed:: threads:: twice:: commands:: errors:: fenced:: keyspace:: mpoll:: pause:: range:: ondue:: rede:: settings:: unheard:: tracking:: access:: released:: rejected:: revive:: dismissed:: effects:: held_since::"
    "torture anything:: restore::"
)
# Tests in which the server moves the objects that hold values.
valkey_tests=(
    "server listening::"
)
# The tests that cover the most kinds of memory in a minute or two, on a server whose memory is also aligned to 8 bytes, as in
# scripts/unaligned.sh: so one build of a server serves for both.
quick_tests=(
    "server aligned:: session:: persistence:: small:: listening:: commands:: fenced:: range:: refused:: ondue::dead keyspace:: unheard:: errors:: mpoll:: hangup:: ondue::list rejected::"
    "torture restore::"
)
# The number of random operations.
export DEHYDRATOR_OPERATIONS=${DEHYDRATOR_OPERATIONS:-4000}
# Loads that measure how long the server stalls, or that take minutes on a slow server.
skipped=(
    two_thousand_clients_blocked_on_one_key thousands_that_time_out_together many_watched_keys_do_not_stop
    a_client_killed_after_it_was_woken slots_that_move_under_load
    a_renamed_key_is_found_among_many_others every_eviction_policy_evicts
    a_hundred_of_a_million_cost a_thousand_clients_blocked_on_the_same_hundred_keys
    finding_frequently_renamed_keys thousands_that_are_unblocked_together
    resending_a_poll_costs_the_same a_stuck_key_does_not_wait_for_the_backlog
    # The module for the sanitizer has a command more.
    every_command_has_its_entry
    # Sizes as other allocators have them.
    take_no_more_than_what_they_replace
    # These preload a library, but the sanitizer must be loaded first.
    with_a_failing_fork retried_even_if_the_clock_steps_back
)
# Memcheck is much slower, but finds what the sanitizer does not: reads of uninitialized memory.
memcheck_tests=(
    "server commands:: errors:: rede::"
)

mkdir -p target/asan
work=$PWD/target/asan
host=$(rustc -vV | sed -n 's/^host: //p')

# One run at a time.
exec 9>"$work/.lock"
flock 9

# Building an optimized module for the sanitizer takes twice as long, which is much of a quick run.
module_optimization=$optimization
[ "${1:-}" != quick ] || module_optimization=0

# sanitized_module <server>: builds the module for the sanitizer. The sanitizer itself is in the server, for both.
sanitized_module() {
    local server=$1
    # An unstable flag of a stable compiler; and frame pointers, with which the sanitizer finds where leaks were
    # allocated. The target is explicit, so that the flags do not apply to build scripts, and it has a folder of its
    # own.
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes" CARGO_PROFILE_DEV_OPT_LEVEL=$module_optimization \
        cargo build --locked --target "$host"
    module=$PWD/target/$host/debug/libdehydrator.so

    local wanted library
    wanted=$(nm -D --undefined-only "$module" | awk '$2 ~ /^__asan_/ { print $2 }' | sort)
    library=$(ldd "$server" | awk '/libasan/ { print $3 }')
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

# drive <reports> <a line of tests>...: runs tests. Fails if one of them fails, or if there is a report.
drive() {
    local reports=$1 line file names name known failed=0
    shift
    for line in "$@"; do
        read -r file names <<<"$line"
        known=$(cargo test --quiet --locked --test "$file" -- --list)
        for name in $names; do
            # A renamed test must not be omitted unnoticed.
            grep -q "^$name.*: test\$" <<<"$known" || { echo "asan.sh: $file has no test $name" >&2; return 1; }
        done
        # shellcheck disable=SC2086  # the names are meant to be split
        cargo test --quiet --locked --test "$file" -- $names "${skipped[@]/#/--skip=}" || failed=1
    done
    while IFS= read -r report; do
        echo "--- $report ---"
        head -n 200 "$report"
        failed=1
    # A refused request of excessive size is no error.
    done < <(find "$reports" -type f -size +0 -exec grep -lv 'WARNING: AddressSanitizer failed to allocate' {} + |
        sort | head -n 5) >&2
    return $failed
}

# Allocations during the load, such as the descriptions of the commands, are never freed.
for_ever=RedisModule_OnLoad

# under_asan <server> <a line of tests>...
under_asan() {
    local server=$1 reports=$work/reports/asan
    shift
    sanitized_module "$server"
    rm -rf "$reports"
    mkdir -p "$reports"
    echo "leak:$for_ever" >"$work/leaks"
    echo "Under AddressSanitizer, $(basename "$server"):"
    # - Tests discard the server's stderr, so reports go to files.
    # - An allocation of excessive size fails, as without a sanitizer, and the request is refused.
    # - The server's own crash report does not describe the memory.
    # - Leaks are reported by servers that a test shuts down; the others are killed.
    ASAN_OPTIONS=log_path=$reports/report:allocator_may_return_null=1:handle_segv=2:malloc_context_size=60:detect_leaks=1 \
        LSAN_OPTIONS=suppressions=$work/leaks:print_suppressions=0 \
        DEHYDRATOR_SERVER=$server DEHYDRATOR_MODULE=$module DEHYDRATOR_DEBUG_MODULE=$module \
        drive "$reports" "$@"
}

under_memcheck() {
    local reports=$work/reports/memcheck launcher=$work/memcheck program
    program=$(command -v redis-server)
    if ! ldd "$program" | grep libjemalloc >/dev/null; then
        echo "asan.sh: the allocator of $program is not a library of its own" >&2
        return 1
    fi
    rm -rf "$reports"
    mkdir -p "$reports"
    # The compression of strings in a dump reads an uninitialized table, and then checks what it read.
    cat >"$work/suppressions" <<END
{
   compression_tests_a_hash
   Memcheck:Cond
   fun:lzf_compress
}
{
   compression_reads_by_a_hash
   Memcheck:Value8
   fun:lzf_compress
}
{
   made_while_loading
   Memcheck:Leak
   match-leak-kinds: definite
   ...
   fun:*$for_ever*
}
END
    cat >"$launcher" <<END
#!/bin/sh
exec valgrind --quiet --tool=memcheck --soname-synonyms='somalloc=libjemalloc.so*' --num-callers=40 \\
    --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --error-exitcode=99 \\
    --suppressions='$work/suppressions' --log-file='$reports/report.%p' '$program' "\$@"
END
    chmod +x "$launcher"
    echo "Under memcheck:"
    DEHYDRATOR_SERVER=$launcher drive "$reports" "${memcheck_tests[@]}"
}

# quick_under_asan: runs some tests on Redis.
quick_under_asan() {
    local redis
    # The others are restored without a sanitizer, by `make torture`.
    export DEHYDRATOR_MUTANTS=${DEHYDRATOR_MUTANTS:-20000}
    redis=$(built_server asan-unaligned redis bookworm 7.0 SANITIZER=address REDIS_CFLAGS=-DNO_MALLOC_USABLE_SIZE)
    under_asan "$redis" "${quick_tests[@]}"
}

# all_under_asan <a line of tests>...: runs tests on Redis, and some on Valkey.
all_under_asan() {
    local redis valkey
    redis=$(built_server asan-redis redis bookworm 7.0 SANITIZER=address)
    valkey=$(built_server asan-valkey valkey sid 9 SANITIZER=address)
    under_asan "$redis" "$@"
    under_asan "$valkey" "${valkey_tests[@]}"
}

case ${1:-both} in
    quick) quick_under_asan ;;
    asan) all_under_asan "${asan_tests[@]}" ;;
    memcheck) under_memcheck ;;
    both)
        all_under_asan "${asan_tests[@]}"
        under_memcheck
        ;;
    *)
        echo "usage: asan.sh [quick | asan | memcheck]" >&2
        exit 1
        ;;
esac
