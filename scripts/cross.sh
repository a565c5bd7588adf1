#!/usr/bin/env bash
# Build the module and the live view for other machines and C libraries, in target/cross:
#
#   <target>/libdehydrator.so         not stripped: with its line tables
#   <target>/dehydrator-top           static, for musl targets only: it runs on any Linux
#   <target>/debug/libdehydrator.so   with --debug, instead of these: the build with hooks for tests
#   rust, tools                       the versions of the compiler and of what links
#
# usage: scripts/cross.sh [--debug] [target...]       (default: the four targets for Linux, see below)
#
# The compiler is that of a Debian trixie under target/cross/root, made once by debootstrap; the linker is zig. So the
# machine's own compiler does not matter, and each build of a commit has the same bytes. Debian ships Rust's standard
# library for its own machines only: it is built here for each target, once, from Debian's sources.
#
# Needs root, for debootstrap and chroot. To start anew, remove target/cross.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

zigbuild=0.24.0
zig=0.17.1
out=$PWD/target/cross
root=$out/root

fail() {
    echo "cross.sh: $*" >&2
    exit 1
}

profile=release
if [ "${1:-}" = --debug ]; then
    profile=debug
    shift
fi
targets=("$@")
[ $# != 0 ] || targets=({x86_64,aarch64}-unknown-linux-{gnu,musl})
[ "$(id -u)" = 0 ] || fail "debootstrap needs root: use sudo"
[ "$(uname -m)" = x86_64 ] || fail "this runs on x86-64 only"
mkdir -p "$out"

# One run at a time.
exec 9>"$out/.lock"
flock 9

# in_root <command>...: runs it in the Debian below $root. Zig finds its files by /proc.
in_root() {
    # shellcheck disable=SC2016
    unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" \
        env -i PATH=/opt/zig:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
}

# logged <what> <command>...: prints what is done, and the command's output if it fails.
logged() {
    local status
    echo "--- $1 ($(date +%T))"
    shift
    # Not in a condition: `set -e` has no effect there.
    set +e
    (set -e && "$@") >"$out/log" 2>&1 9>&-
    status=$?
    set -e
    [ $status = 0 ] || {
        tail -n 40 "$out/log" >&2
        fail "failed; the whole output is in $out/log"
    }
}

make_root() {
    rm -rf --one-file-system "$root"
    mkdir -p "$root" target/debootstrap
    debootstrap --variant=minbase --cache-dir="$PWD/target/debootstrap" trixie "$root" "$(apt_mirror)"
    # No service is started.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    # This folder can be made again: dpkg need not sync each file.
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
    apt-config dump | grep -E '^Acquire::(Check-|https?|Retries|Languages)' >"$root/etc/apt/apt.conf.d/host" || :
    in_root apt-get -q update
    # rustc-web is the recent Rust that Debian keeps for browsers.
    in_root apt-get -q install -y --no-install-recommends rustc-web cargo-web rust-web-src gcc libc6-dev libclang-dev
    in_root apt-get -q clean
    touch "$root/.complete"
}

tools() {
    rm -rf "$out/venv" "$root/opt/zig"
    python3 -m venv "$out/venv"
    "$out/venv/bin/pip" install --quiet "cargo-zigbuild==$zigbuild" "ziglang==$zig"
    mkdir -p "$root/opt/zig"
    cp -a "$out"/venv/lib/python3*/site-packages/ziglang/{zig,lib} "$out/venv/bin/cargo-zigbuild" "$root/opt/zig/"
    echo "cargo-zigbuild $zigbuild, zig $zig" >"$out/tools"
}

# standard_library <target>: as the Rust project builds it (profile `dist`), into the compiler's folder.
standard_library() {
    local sources=/usr/lib/rustlib/src/rust/library to=$root/usr/lib/rustlib/$1/lib
    in_root env -C $sources RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=/build/std CARGO_NET_OFFLINE=true \
        RUSTFLAGS="-Zforce-unstable-if-unmarked --remap-path-prefix=/build=/build $(flags "$1")" \
        CARGO_ZIGBUILD_ZIG_PATH=/opt/zig/zig cargo-zigbuild build -Zavoid-dev-deps --locked --manifest-path sysroot/Cargo.toml --profile dist --target "$1" \
        --features panic-unwind,backtrace \
        --config 'source.crates-io.replace-with="vendored"' --config "source.vendored.directory=\"$sources/vendor\""
    rm -rf "$to"
    mkdir -p "$to/self-contained"
    cp "$root/build/std/$1/dist/deps/"*.rlib "$to/"
    # What the Rust project puts beside it of musl is zig's task: rustc only looks whether it exists.
    case $1 in
        *-musl) for name in c unwind; do in_root ar cr "/usr/lib/rustlib/$1/lib/self-contained/lib$name.a"; done ;;
    esac
    rm -rf "$root/build/std"
}

# flags <target>: musl's programs are static by default. A module is not: the server has the C library.
flags() {
    case $1 in
        *-musl) echo -Ctarget-feature=-crt-static ;;
    esac
}

sources() {
    # Timestamps are kept, so that only changed files are compiled again.
    rm -rf "$root/build/dehydrator"
    mkdir -p "$root/build/dehydrator/examples" "$root/build/.cargo"
    cp -a Cargo.toml Cargo.lock commit src tests benches top "$root/build/dehydrator/"
    cp -a examples/*.rs "$root/build/dehydrator/examples/"
    cargo vendor --locked --versioned-dirs --sync top/Cargo.toml "$root/build/vendor"
    printf '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "/build/vendor"\n' \
        >"$root/build/.cargo/config.toml"
}

# zigbuild <folder> <rustc's flags> <cargo's arguments>...
zigbuild() {
    local folder=/build/$1 flags=$2
    shift 2
    [ "$profile" = debug ] || set -- "$@" --release
    in_root env -C "$folder" CARGO_ZIGBUILD_ZIG_PATH=/opt/zig/zig CARGO_TARGET_DIR="/build/target/${folder##*/}" \
        DEHYDRATOR_COMMIT="$commit" CFLAGS=-ffile-prefix-map=/build/vendor=/cargo \
        RUSTFLAGS="--remap-path-prefix=/build/vendor=/cargo --remap-path-prefix=/build=/ $flags" \
        cargo-zigbuild rustc --locked --offline "$@" -- -Clink-arg=-Wl,--build-id=sha1
}

# module <target>, live_view <target>: build them, into $out/<target>.
module() {
    local target=$1 versioned=$1
    # The oldest C library that it runs with.
    case $target in *-gnu) versioned=$target.2.17 ;; esac
    zigbuild dehydrator "$(flags "$target")" --lib --target "$versioned"
    install -D "$root/build/target/dehydrator/$target/$profile/libdehydrator.so" "$out/$target/${profile#release}/libdehydrator.so"
}

live_view() {
    zigbuild dehydrator/top -Clink-self-contained=no --bin dehydrator-top --target "$1"
    install -D "$root/build/target/top/$1/release/dehydrator-top" "$out/$1/dehydrator-top"
}

[ -e "$root/.complete" ] || logged "a Debian trixie with Rust, in target/cross/root: minutes, 2 GB" make_root
[ "$(cat "$out/tools" 2>/dev/null)" = "cargo-zigbuild $zigbuild, zig $zig" ] || logged "cargo-zigbuild $zigbuild, zig $zig" tools
for target in "${targets[@]}"; do
    [ -e "$root/usr/lib/rustlib/$target/.complete" ] || [ "$target" = x86_64-unknown-linux-gnu ] || {
        logged "Rust's standard library for $target" standard_library "$target"
        touch "$root/usr/lib/rustlib/$target/.complete"
    }
done
in_root rustc --version >"$out/rust"
commit=${DEHYDRATOR_COMMIT:-$(scripts/commit.sh --here)}
logged "the sources" sources
for target in "${targets[@]}"; do
    logged "the module for $target" module "$target"
    case $profile-$target in
        release-*-linux-musl) logged "the live view for $target" live_view "$target" ;;
    esac
done
