#!/bin/sh
# Build the version before this one, for the tests that upgrade from it: target/previous/libdehydrator.so. Which commit
# that is stands in tests/previous.
#
# Running it again is cheap. Where the clone has no such commit, as a shallow one, it says so and builds nothing: the
# tests are left out then, and say so.
set -eu
cd "$(dirname "$0")/.."

commit=$(grep -v '^#' tests/previous)
dest=target/previous
mkdir -p "$dest"
exec 9>"$dest/.lock"
flock 9

[ "$(cat "$dest/commit" 2>/dev/null)" != "$commit" ] || exit 0
rm -rf "$dest/commit" "$dest/libdehydrator.so" "$dest/source"
git cat-file -e "$commit^{commit}" 2>/dev/null || {
    echo "previous.sh: this clone has no commit $commit, so nothing is upgraded from it" >&2
    exit 0
}
mkdir "$dest/source"
git archive "$commit" | tar -x -C "$dest/source"
echo "Building the version before this one, once: that takes a minute or two."
# Without what makes the module that is shipped a little faster, and its build much slower.
CARGO_TARGET_DIR=$dest/build CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    cargo build --release --locked --manifest-path "$dest/source/Cargo.toml"
mv "$dest/build/release/libdehydrator.so" "$dest/"
rm -rf "$dest/source" "$dest/build"
echo "$commit" >"$dest/commit"
