#!/usr/bin/env bash
# planted.sh [name]...: plants each fault of tests/simulated/planted, one at a time, in a copy of the sources, builds the module,
# and fails if the simulation does not find the fault within SECONDS_EACH=60. What the same seed breaks without the fault is a
# false alarm, and does not count. Prints a line for each fault: its name, seconds, seed, promise. Takes five minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${SECONDS_EACH:-60}
folder=$PWD/target/planted
cargo build --profile simulated --locked --bins --package dehydrator-simulated
# Without optimization, which takes longer than it saves.
cargo build --locked --lib
rm -rf "$folder/tree"
mkdir -p "$folder/tree" "$folder/libraries"
# What is in git, as it is in the working tree.
git ls-files -z | xargs -0 tar cf - | tar xf - -C "$folder/tree"
[ $# != 0 ] || mapfile -t names < <(basename -s .patch tests/simulated/planted/*.patch)
[ $# = 0 ] || names=("$@")
missed=()
for name in "${names[@]}"; do
    patch=$PWD/tests/simulated/planted/$name.patch
    library=$folder/libraries/$name.so
    patch --quiet --strip 1 --directory "$folder/tree" <"$patch"
    CARGO_TARGET_DIR=$folder/target cargo build --quiet --locked --lib --manifest-path "$folder/tree/Cargo.toml"
    cp "$folder/target/debug/libdehydrator.so" "$library"
    patch --quiet --strip 1 --reverse --directory "$folder/tree" <"$patch"
    found=0
    target/simulated/simulated "$library" beside target/debug/libdehydrator.so seconds "$seconds" shrink 0 >"$folder/$name.txt" || found=$?
    alarms=$(sed -n 's/^\([0-9]*\) false alarms$/, \1 false alarms/p' "$folder/$name.txt")
    if [ "$found" = 1 ]; then
        printf '%-32s %s%s\n' "$name" "$(grep ' after ' "$folder/$name.txt" | tail -1 | cut -c -200)" "$alarms"
    else
        printf '%-32s not found in %s s%s\n' "$name" "$seconds" "$alarms"
        missed+=("$name")
    fi
done
[ ${#missed[@]} = 0 ] || {
    echo "not found within $seconds s: ${missed[*]}"
    exit 1
}
