#!/usr/bin/env bash
# Change one thing at a time in a copy of the sources, and see whether the unit tests notice (cargo-mutants, which is
# built from its sources if it is not there, once). What they do not notice is printed, and written to target/mutants.
#
#   scripts/mutants.sh [files...]
#       files    below src/; default: those that unit tests are to hold in full
#   scripts/mutants.sh --check    compiles what would be changed, and no more
#   SHARD=k/n    only each n-th change, from the k-th on: 0/20 is a sample
#
# The whole module takes long to build for each change, most of it for the bindings to the server. So what is built is a
# small crate of those files, which is put together from mutants/ and src/. The requests of commands stand beside their
# handlers, which need the server: for those, and for those alone, it is a copy of the module.
set -euo pipefail
cd "$(dirname "$0")/.."

# put_together <folder>: the crate that is changed.
put_together() {
    rm -rf "$1"
    mkdir -p "$1/.cargo"
    # With the time of now: what was built last was built of a change, and must not pass for what is here.
    cp -R src mutants/Cargo.toml Cargo.lock "$1"
    cp mutants/lib.rs "$1/src/lib.rs"
    cp mutants/mutants.toml "$1/.cargo"
}

if [ "${1:-}" = --check ]; then
    tree=target/check-tools/mutants
    put_together "$tree"
    export CARGO_TARGET_DIR=$PWD/target/check-tools/build RUSTFLAGS="-D warnings"
    cargo check --quiet --workspace --tests --manifest-path "$tree/Cargo.toml"
    cargo check --quiet --workspace --tests --manifest-path "$tree/Cargo.toml" --features=tiny-bounds
    exit
fi

version=27.1.0
PATH=$PWD/target/tools/bin:$PATH
if [ "$(cargo mutants --version 2>/dev/null)" != "cargo-mutants $version" ]; then
    # Unoptimised, because it is built for longer than it ever computes.
    cargo install --quiet --locked --debug --root target/tools "cargo-mutants@$version"
fi

if [ $# = 0 ]; then
    mapfile -t with_requests < <(grep -l 'fn parse' src/commands/{,poll/}*.rs)
    set -- src/policy/*.rs src/metrics/{clock_steps,latency}.rs src/commands/args/*.rs src/data_type/encoding/*.rs \
        "${with_requests[@]}" src/lawn/*.rs src/lawn/{index,lease,queues,remembered,small,store}/*.rs
fi
around=() requests=() lawn=()
for file in "$@"; do
    case $file in
        src/policy/* | src/metrics/* | src/commands/args/* | src/data_type/encoding/*) around+=(--file "$file") ;;
        src/commands/*) requests+=(--file "$file") ;;
        src/lawn/*) lawn+=(--file "$file") ;;
        *)
            echo "mutants.sh: $file is not in mutants/lib.rs" >&2
            exit 1
            ;;
    esac
done

work=$PWD/target/mutants
tree=$work/tree
rm -rf "$work"/{around,requests,tiny,real}
put_together "$tree"

export CARGO_TARGET_DIR=$work/build
# Which operations show it, nobody wants to know; and fewer do, as there are as many for each change.
export PROPTEST_MAX_SHRINK_ITERS=0 PROPTEST_CASES=${PROPTEST_CASES:-64}
# A loop that a change has made endless must not take all memory before its time is over.
ulimit -v 6000000

# run <folder> <sources> [options...]: what is missed or takes too long is no error here, but a test that fails by
# itself is.
run() {
    local status=0
    cargo mutants --dir "$2" --in-place --output "$work/$1" --colors never --minimum-test-timeout 20 \
        "${@:3}" -- --lib || status=$?
    case $status in
        0 | 2 | 3) ;;
        *) exit "$status" ;;
    esac
}

sample=(${SHARD:+--sharding round-robin --shard "$SHARD"})
if [ ${#around[@]} != 0 ]; then
    run around "$tree" --package dehydrator-mutants "${sample[@]}" "${around[@]}"
fi
if [ ${#requests[@]} != 0 ]; then
    module=$work/module
    rm -rf "$module"
    mkdir -p "$module/.cargo"
    git ls-files -z | xargs -0 cp --parents -t "$module"
    cp mutants/mutants.toml "$module/.cargo"
    run requests "$module" --package dehydrator "${sample[@]}" --re '\b(parse|with_slack|HeldList)' "${requests[@]}"
fi
if [ ${#lawn[@]} != 0 ]; then
    # With tiny bounds the oracle sees most; what it misses is for the tests of the real bounds.
    run tiny "$tree" --package dehydrator-lawn --features tiny-bounds "${sample[@]}" "${lawn[@]}"
    mapfile -t again < <(sed 's/[][\.*^$+?(){}|]/\\&/g; s/.*/--re=^&$/' "$work/tiny/mutants.out/missed.txt")
    : >"$work/tiny/mutants.out/missed.txt"
    [ ${#again[@]} = 0 ] || run real "$tree" --package dehydrator-lawn "${again[@]}" "${lawn[@]}"
fi

# A change to a field of a struct is made in both passes, whatever is asked for: seen once is seen.
printf '\nOf the changes that compile, those that a test notices, or that never come to an end:\n'
for result in caught timeout missed; do
    sed "s/^/$result /" "$work"/*/mutants.out/$result.txt
done | awk -v missed="$work/missed.txt" '
    { result = $1; name = substr($0, length($1) + 2); file = name; sub(/:.*/, "", file) }
    !(name in files) { files[name] = file; all[file]++ }
    result != "missed" && !(name in seen) { seen[name]; noticed[file]++ }
    END {
        for (file in all) printf "%5d of %5d  %s\n", noticed[file], all[file], file
        printf "" >missed
        for (name in files) if (!(name in seen)) print name >missed
    }' | sort -k 4
[ ! -s "$work/missed.txt" ] || { printf '\nMissed:\n' && sort -V "$work/missed.txt" && exit 1; }
