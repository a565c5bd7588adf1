#!/usr/bin/env bash
# Change one thing at a time in a copy of the sources, and check whether the unit tests notice (with cargo-mutants,
# which is built from source once, if it is missing). Prints unnoticed changes, and writes them to target/mutants.
#
#   scripts/mutants.sh [files...]
#       files    below src/; default: those that unit tests must cover fully
#   scripts/mutants.sh --check    only compiles what would be changed
#   SHARD=k/n    only every n-th change, starting with the k-th: 0/20 is a sample
#
# The whole module takes long to build for each change, mostly for the bindings to the server. So a small crate of those
# files is built, assembled from tests/mutants/ and src/. The requests of commands are beside their handlers, which need the
# server: only for those, a copy of the module is built.
set -euo pipefail
cd "$(dirname "$0")/.."

# put_together <folder>: creates the crate that is changed.
put_together() {
    rm -rf "$1"
    mkdir -p "$1/.cargo"
    # With the current time: the last build was of a change, and must not be taken for the build of this code.
    cp -R src tests/mutants/Cargo.toml Cargo.lock "$1"
    cp tests/mutants/lib.rs "$1/src/lib.rs"
    cp tests/mutants/mutants.toml "$1/.cargo"
    # A test reads it.
    cp --parents integrations/node/tests/data/occurrences.tsv.gz "$1"
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
    # Without optimization, because building takes longer than running.
    cargo install --quiet --locked --debug --root target/tools "cargo-mutants@$version"
fi

if [ $# = 0 ]; then
    mapfile -t with_requests < <(grep -l 'fn parse' src/commands/{,poll/}*.rs)
    set -- src/policy/*.rs src/schedule/*.rs src/metrics/{clock_steps,lateness}.rs src/pending/agenda/{entry,table}.rs \
        src/commands/args/*.rs src/data_type/encoding/*.rs "${with_requests[@]}" \
        src/lawn/*.rs src/lawn/{groups,index,lease,queues,aside,small,store}/*.rs
fi
around=() requests=() lawn=()
for file in "$@"; do
    case $file in
        src/policy/* | src/schedule/* | src/metrics/* | src/pending/agenda/* | src/commands/args/* | src/data_type/encoding/*)
            around+=(--file "$file")
            ;;
        src/commands/*) requests+=(--file "$file") ;;
        src/lawn/*) lawn+=(--file "$file") ;;
        *)
            echo "mutants.sh: $file is not in tests/mutants/lib.rs" >&2
            exit 1
            ;;
    esac
done

work=$PWD/target/mutants
tree=$work/tree
rm -rf "$work"/{around,requests,tiny,real}
put_together "$tree"

export CARGO_TARGET_DIR=$work/build
# The shortest failing operations are not needed, and fewer cases suffice, because each change runs them.
export PROPTEST_MAX_SHRINK_ITERS=0 PROPTEST_CASES=${PROPTEST_CASES:-64}
# An endless loop in a change must not use all memory before its timeout.
ulimit -v 6000000

# run <folder> <sources> [options...]: unnoticed changes and timeouts are no errors here, but tests that fail without a
# change are.
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
    cp tests/mutants/mutants.toml "$module/.cargo"
    run requests "$module" --package dehydrator "${sample[@]}" --re '\b(parse|with_slack|HeldList)' "${requests[@]}"
fi
if [ ${#lawn[@]} != 0 ]; then
    # With tiny bounds, the oracle covers most; the rest needs the tests with the real bounds.
    run tiny "$tree" --package dehydrator-lawn --features tiny-bounds "${sample[@]}" "${lawn[@]}"
    mapfile -t again < <(sed 's/[][\.*^$+?(){}|]/\\&/g; s/.*/--re=^&$/' "$work/tiny/mutants.out/missed.txt")
    : >"$work/tiny/mutants.out/missed.txt"
    [ ${#again[@]} = 0 ] || run real "$tree" --package dehydrator-lawn "${again[@]}" "${lawn[@]}"
fi

# A change to a field of a struct is made in both passes: it is enough if one notices it.
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
