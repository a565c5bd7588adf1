#!/usr/bin/env bash
# planted.sh [name]...: plants each fault of tests/simulated/planted, one at a time, in a copy of the sources, builds the module,
# and fails if the simulation does not find the fault within SECONDS=60 on one core. Takes a quarter of an hour.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${SECONDS_EACH:-60}
folder=$PWD/target/planted
cargo build --profile simulated --locked --bins --package dehydrator-simulated
rm -rf "$folder/tree"
mkdir -p "$folder/tree"
# What is in git, as it is in the working tree.
git ls-files -z | xargs -0 tar cf - | tar xf - -C "$folder/tree"
[ $# != 0 ] || mapfile -t names < <(basename -s .patch tests/simulated/planted/*.patch)
[ $# = 0 ] || names=("$@")
missed=()
for name in "${names[@]}"; do
    patch=$PWD/tests/simulated/planted/$name.patch
    patch --quiet --strip 1 --directory "$folder/tree" <"$patch"
    CARGO_TARGET_DIR=$folder/target cargo build --quiet --locked --profile simulated --lib --manifest-path "$folder/tree/Cargo.toml"
    patch --quiet --strip 1 --reverse --directory "$folder/tree" <"$patch"
    echo "--- $name: $(head -1 "$patch")"
    if target/simulated/simulated "$folder/target/simulated/libdehydrator.so" seconds "$seconds" shrink 10; then
        missed+=("$name")
    fi
done
[ ${#missed[@]} = 0 ] || {
    echo "not found within $seconds s: ${missed[*]}"
    exit 1
}
