#!/usr/bin/env bash
# Build the module and the live view for other machines and C libraries, in target/cross:
#
#   <target>/libdehydrator.so         not stripped: with its line tables
#   <target>/dehydrator-top           static, for musl targets only: it runs on any Linux
#   <target>/debug/libdehydrator.so   with --debug, instead of these: the build with hooks for tests
#
# usage: scripts/cross.sh [--debug | --tests] [target...]       (default: the four targets for Linux, see below)
#
#   --tests     runs the unit tests instead; for another architecture by what CARGO_TARGET_<TARGET>_RUNNER names
#
# The compiler is this machine's Rust, with the standard libraries that rustup downloads; zig links, with the C libraries that
# it brings along. So the machine's own C library does not matter. As root, the same Rust makes the same bytes from a commit, in
# whatever folder; otherwise, the line tables of what zig compiles name the folder.
set -euo pipefail
cd "$(dirname "$0")/.."

# In a namespace of its own, this folder is at the same place everywhere.
place=/usr/src/dehydrator
export DEHYDRATOR_COMMIT="${DEHYDRATOR_COMMIT:-$(scripts/commit.sh --here)}"
if [ "$(id -u)" = 0 ] && [ "$PWD" != $place ]; then
    mkdir -p $place
    # shellcheck disable=SC2016  # the names are the inner shell's
    exec unshare --mount sh -c 'mount --rbind . "$0" && cd "$0" && exec scripts/cross.sh "$@"' $place "$@"
fi

root=$PWD
out=$root/target/cross

profile=release
case ${1:-} in
    --debug | --tests) profile=${1#--} && shift ;;
esac
targets=("$@")
[ $# != 0 ] || targets=({x86_64,aarch64}-unknown-linux-{gnu,musl})
mkdir -p "$out"
scripts/setup.sh python
zig=$(scripts/zig.sh)
for target in "${targets[@]}"; do
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || rustup --quiet target add "$target"
done

# One run at a time.
exec 9>"$out/.lock"
flock 9

# zigbuild <rustc's flags> <cargo's arguments>...: the files of a release do not contain the folders of this machine.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
zigbuild() (
    flags="--remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$root=/dehydrator -Clink-arg=-Wl,--build-id=sha1 $1"
    shift
    # Below a folder that has zig in it, zig tells the places of its headers by relative paths, which bindgen does not find.
    cd "$out"
    # Zig's caches are not shared with other folders: they tell theirs.
    PATH=$zig:$PATH CARGO_ZIGBUILD_ZIG_PATH=$zig/zig CARGO_TARGET_DIR=$out/build XDG_CACHE_HOME=$out/cache \
        CFLAGS=-ffile-prefix-map=$cargo_home=/cargo RUSTFLAGS=$flags cargo-zigbuild "$@"
)

for target in "${targets[@]}"; do
    echo "--- $target ($(date +%T))"
    # The oldest C library that it runs with. Programs for musl are static by default; a module is not: the server has the C
    # library.
    case $target in
        *-gnu) versioned=$target.2.17 flags= ;;
        *) versioned=$target flags=-Ctarget-feature=-crt-static ;;
    esac
    module=(--quiet --locked --manifest-path "$root/Cargo.toml" --lib --target "$versioned")
    case $profile in
        tests)
            for features in '' tiny-bounds; do
                CARGO_PROFILE_TEST_OPT_LEVEL=1 zigbuild "$flags" test "${module[@]}" --package dehydrator --package dehydrator-lawn \
                    --features "$features"
            done
            ;;
        debug)
            zigbuild "$flags" build "${module[@]}"
            install -D "$out/build/$target/debug/libdehydrator.so" "$out/$target/debug/libdehydrator.so"
            ;;
        release)
            zigbuild "$flags" build "${module[@]}" --release
            install -D "$out/build/$target/release/libdehydrator.so" "$out/$target/libdehydrator.so"
            case $target in
                *-linux-musl)
                    zigbuild '' build --quiet --locked --manifest-path "$root/console/Cargo.toml" --target "$target" --release
                    install "$out/build/$target/release/dehydrator-top" "$out/$target/dehydrator-top"
                    ;;
            esac
            ;;
    esac
done
