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
echo "Building the version before this one, once."
# A debug build: `make build-debug` has built the libraries of one by now, and they are taken over.
rm -rf "$dest/build"
mkdir -p "$dest/build/debug"
for part in .fingerprint build deps; do
    [ ! -e "target/debug/$part" ] || cp -al "target/debug/$part" "$dest/build/debug/"
done
rm -rf "$dest"/build/debug/*/*dehydrator*
# As Cargo.toml has it now: libraries that were built otherwise would be built again.
export CARGO_PROFILE_DEV_DEBUG=line-tables-only CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG=false
CARGO_TARGET_DIR=$dest/build cargo build --locked --manifest-path "$dest/source/Cargo.toml"
mv "$dest/build/debug/libdehydrator.so" "$dest/"
rm -rf "$dest/source" "$dest/build"
echo "$commit" >"$dest/commit"
