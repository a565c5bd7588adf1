#!/usr/bin/env bash
# Build the module for Linux on arm64, on another architecture, and test it there under qemu:
#
#   - the unit tests, built for arm64;
#   - the sessions in redis-cli, with every command, on Debian's Redis for arm64;
#   - replication between such a server and one of this machine's architecture: the digests of primary and
#     replica must be equal, in both directions.
#
# The compilers are those of a Debian sid that debootstrap creates under target/arm64/root, once. From the machine it
# uses only cargo, which downloads the libraries, qemu and redis-cli. To start over, remove target/arm64.
#
# The tested results are put into target/arm64 for scripts/package.sh:
#
#   libdehydrator.so   the module
#   dehydrator-top     the live view, which is only started
#   depends            the dependencies of its package, in Debian's notation
#   sources            the sources that it was built from
#
# Needs root, for debootstrap and chroot.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh

target=aarch64-unknown-linux-gnu
triplet=aarch64-linux-gnu
out=$PWD/target/arm64
root=$out/root

fail() {
    echo "arm64.sh: $*" >&2
    exit 1
}

[ "$(uname -m)" != aarch64 ] || fail "this machine is an arm64: \`make\` and \`make test\` are for it"
[ "$(id -u)" = 0 ] || fail "debootstrap needs root: run \`sudo make arm64\`"
qemu=$(command -v qemu-aarch64-static) || fail "no qemu-aarch64-static: run \`make setup\`"
mkdir -p "$out"

# One run at a time.
exec 9>"$out/.lock"
flock 9

# in_root <command>...: runs a command in the Debian below $root.
in_root() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive \
        chroot "$root" "$@"
}

# logged <what> <command>...: announces a step, and prints its output if it fails.
logged() {
    local status
    echo "--- $1"
    shift
    # Not in a condition: there, the first failure would not end it.
    set +e
    (set -e && "$@") >"$out/log" 2>&1 9>&-
    status=$?
    set -e
    [ $status = 0 ] || {
        tail -n 40 "$out/log" >&2
        fail "that failed; all that it printed is in $out/log"
    }
}

# results: prints the counts of the last tests.
results() { grep -E '^test result:' "$out/log" || fail "no test was run"; }

make_root() {
    rm -rf --one-file-system "$root"
    mkdir -p "$root" target/debootstrap
    debootstrap --variant=minbase --cache-dir="$PWD/target/debootstrap" sid "$root" "$(apt_mirror)"
    # Services are started only by this script.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    # Reproducible files need no protection from power failures: dpkg would sync each file.
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
    # How this machine downloads packages: through a proxy, or from an unmaintained mirror.
    apt-config dump | grep -E '^Acquire::(Check-|https?|Retries|Languages)' >"$root/etc/apt/apt.conf.d/host" || :
    in_root dpkg --add-architecture arm64
    in_root apt-get -q update
    # gcc is for build scripts; dpkg-dev finds a package's dependencies. The server is in redis-tools; the package
    # redis-server only starts it.
    in_root apt-get -q install -y --no-install-recommends rustc cargo libstd-rust-dev:arm64 \
        gcc libc6-dev gcc-$triplet libc6-dev:arm64 libclang-dev dpkg-dev redis-tools:arm64
    in_root apt-get -q clean
    touch "$root/.complete"
}

[ -e "$root/.complete" ] || logged "a Debian sid with compilers, in target/arm64/root: minutes, 2 GB" make_root

# --- the build ---------------------------------------------------------------------------------------------
# The sources of the build; scripts/package.sh checks them, so that it does not pack a module from other sources.
sources=$(scripts/sources.sh)
# There is no repository there.
commit=$(scripts/commit.sh --here)

fetch() {
    # Times are kept, so that only changed files are recompiled.
    rm -rf "$root/build/dehydrator"
    mkdir -p "$root/build/dehydrator/.cargo"
    cp -a Cargo.toml Cargo.lock commit src tests benches top "$root/build/dehydrator/"
    mkdir "$root/build/dehydrator/examples"
    cp -a examples/*.rs "$root/build/dehydrator/examples/"
    cargo vendor --locked --versioned-dirs --sync top/Cargo.toml "$root/build/vendor"
    printf '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "/build/vendor"\n' \
        >"$root/build/dehydrator/.cargo/config.toml"
    # For the unit tests, without the dependencies of the server tests and the benches, which are most of them.
    rm -rf "$root/build/unit-tests"
    cp -a "$root/build/dehydrator" "$root/build/unit-tests"
    sed -i -e '/^\[dev-dependencies\]/,/^\[profile/ { /^[a-z-]*[ .]/!b; /^\(lawn\|proptest\)[ .]/!d }' \
        -e 's,^members = .*,members = ["commit"\, "src/lawn"],' "$root/build/unit-tests/Cargo.toml"
    install -m 755 "$qemu" "$root/usr/local/bin/qemu-aarch64-static"
}

# cargo_in_root <folder> <arguments>: runs cargo there, for the target architecture, without a network.
cargo_in_root() {
    local folder=$1
    shift
    in_root env -C "/build/$folder" \
        CARGO_BUILD_TARGET=$target \
        CARGO_TARGET_DIR=/build/target \
        CC_aarch64_unknown_linux_gnu=$triplet-gcc \
        DEHYDRATOR_COMMIT="$commit" \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$triplet-gcc \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=/usr/local/bin/qemu-aarch64-static \
        cargo "$@" --offline
}

logged "the sources, with those of the libraries" fetch
logged "the module, for arm64" cargo_in_root dehydrator build --locked --release
logged "the live view, for arm64" cargo_in_root dehydrator/top build --locked --release

unit_tests() {
    cargo_in_root unit-tests test --workspace --lib
    cargo_in_root unit-tests test --workspace --lib --features tiny-bounds
}

module=$out/new/libdehydrator.so
rm -rf "$out/new"
mkdir "$out/new"
cp "$root/build/target/$target/release/libdehydrator.so" "$root/build/target/$target/release/dehydrator-top" "$out/new/"
"$qemu" -L "$root" "$out/new/dehydrator-top" --help >/dev/null

logged "the unit tests, under qemu" unit_tests
results

# --- servers -------------------------------------------------------------------------------------------------
# argv[0] matters: the server is one program with several names.
printf '#!/bin/sh\nexec %q -0 redis-server -L %q %q "$@"\n' \
    "$qemu" "$root" "$root/usr/bin/redis-check-rdb" >"$out/redis-server"
chmod +x "$out/redis-server"
"$out/redis-server" --version

servers=${SERVERS_DIR:-target/servers}
mkdir -p "$servers"
servers=$(cd "$servers" && pwd)

# One by one: in parallel, they are so slow under qemu that elements come due too early for the tests.
sessions() {
    DEHYDRATOR_SERVER=$out/redis-server DEHYDRATOR_MODULE=$module DEHYDRATOR_CLI=$servers/redis-cli \
        cargo test --locked --test server -- --test-threads 1 session::
}

# This machine's server has the same version; otherwise one could not load what the other saves.
two_architectures() {
    scripts/servers.sh "$servers"
    DEHYDRATOR_SERVER=$servers/redis-8 DEHYDRATOR_CLI=$servers/redis-cli \
        DEHYDRATOR_OTHER_SERVER=$out/redis-server DEHYDRATOR_OTHER_MODULE=$module \
        cargo test --locked --test server -- --ignored --nocapture --test-threads 1 other_architecture
}

logged "an x86-64 primary and its arm64 replica, and the other way round" two_architectures
grep -o 'a primary on .*' "$out/log"
results
logged "the sessions, with every verb, on arm64 under qemu" sessions
results

# --- what scripts/package.sh takes ---------------------------------------------------------------------------
# The C library that it needs: dpkg-shlibdeps requires a source package, and the libraries' own packages.
depends() {
    rm -rf "$root/build/depends"
    mkdir -p "$root/build/depends/debian"
    printf 'Source: dehydrator\n\nPackage: dehydrator\nArchitecture: any\n' >"$root/build/depends/debian/control"
    cp "$module" "$out/new/dehydrator-top" "$root/build/depends/"
    in_root env -C /build/depends DEB_HOST_ARCH=arm64 dpkg-shlibdeps -O libdehydrator.so dehydrator-top >"$out/new/depends"
    grep -q libc6 "$out/new/depends"
}

logged "what it depends on" depends
cat "$out/new/depends"
echo "$sources" >"$out/new/sources"
mv "$out/new/"* "$out/"
rmdir "$out/new"
echo "Linux on arm64, $(date -u +%F): all of that has passed. \`make package\` now packs it too."
