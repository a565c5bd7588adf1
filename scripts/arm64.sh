#!/usr/bin/env bash
# Build the module for Linux on arm64, on another machine, and try it there under qemu:
#
#   - the unit tests, built for arm64;
#   - the sessions in redis-cli, which show every verb, on Debian's Redis for arm64;
#   - replication between such a server and one of this machine's architecture: the digests of primary and
#     replica must be equal, both ways.
#
# The compilers are those of a Debian sid that debootstrap puts under target/arm64/root, once; nothing of
# the machine's is used but its cargo, which fetches the libraries, its qemu and its redis-cli. To begin anew,
# remove target/arm64.
#
# What has passed is put in target/arm64 for scripts/package.sh:
#
#   libdehydrator.so   the module
#   dehydrator-top     the live view, which is started, no more
#   depends            what its package depends on, in Debian's words
#   sources            of which sources it was made
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

# in_root <command>...: runs it in the Debian that is below $root.
in_root() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive \
        chroot "$root" "$@"
}

# logged <what> <command>...: says what is done, and what it printed if it fails.
logged() {
    local status
    echo "--- $1"
    shift
    # Not in a condition: there nothing would end at its first failure.
    set +e
    (set -e && "$@") >"$out/log" 2>&1 9>&-
    status=$?
    set -e
    [ $status = 0 ] || {
        tail -n 40 "$out/log" >&2
        fail "that failed; all that it printed is in $out/log"
    }
}

# results: what the tests that were run last have counted.
results() { grep -E '^test result:' "$out/log" || fail "no test was run"; }

make_root() {
    rm -rf --one-file-system "$root"
    mkdir -p "$root" target/debootstrap
    debootstrap --variant=minbase --cache-dir="$PWD/target/debootstrap" sid "$root" "$(apt_mirror)"
    # Nothing is started but by us.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    # What can be made again need not be safe from a power cut: dpkg would sync each file.
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
    # How this machine fetches packages: by a proxy, or from a mirror that is not kept up.
    apt-config dump | grep -E '^Acquire::(Check-|https?|Retries|Languages)' >"$root/etc/apt/apt.conf.d/host" || :
    in_root dpkg --add-architecture arm64
    in_root apt-get -q update
    # gcc is for what runs while the module is built; dpkg-dev knows what a package depends on. The server is in
    # redis-tools; the package redis-server has it started, no more.
    in_root apt-get -q install -y --no-install-recommends rustc cargo libstd-rust-dev:arm64 \
        gcc libc6-dev gcc-$triplet libc6-dev:arm64 libclang-dev dpkg-dev redis-tools:arm64
    in_root apt-get -q clean
    touch "$root/.complete"
}

[ -e "$root/.complete" ] || logged "a Debian sid with compilers, in target/arm64/root: minutes, 2 GB" make_root

# --- the build ---------------------------------------------------------------------------------------------
# What it is made from; scripts/package.sh asks the same, so as not to pack the module of other sources.
sources=$(scripts/sources.sh)
# There is no repository there.
commit=$(scripts/commit.sh --here)

fetch() {
    # Times are kept, so only what has changed is compiled anew.
    rm -rf "$root/build/dehydrator"
    mkdir -p "$root/build/dehydrator/.cargo"
    cp -a Cargo.toml Cargo.lock commit src tests benches top "$root/build/dehydrator/"
    mkdir "$root/build/dehydrator/examples"
    cp -a examples/*.rs "$root/build/dehydrator/examples/"
    cargo vendor --locked --versioned-dirs --sync top/Cargo.toml "$root/build/vendor"
    printf '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "/build/vendor"\n' \
        >"$root/build/dehydrator/.cargo/config.toml"
    # For the unit tests, without what only the tests with servers and the benches are made with: most of it.
    rm -rf "$root/build/unit-tests"
    cp -a "$root/build/dehydrator" "$root/build/unit-tests"
    sed -i -e '/^\[dev-dependencies\]/,/^\[profile/ { /^[a-z-]*[ .]/!b; /^\(lawn\|proptest\)[ .]/!d }' \
        -e 's,^members = .*,members = ["commit"\, "src/lawn"],' "$root/build/unit-tests/Cargo.toml"
    install -m 755 "$qemu" "$root/usr/local/bin/qemu-aarch64-static"
}

# cargo_in_root <folder> <arguments>: as it is there, for the machine that is meant, without a network.
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
# argv[0] matters: the server is one program under several names.
printf '#!/bin/sh\nexec %q -0 redis-server -L %q %q "$@"\n' \
    "$qemu" "$root" "$root/usr/bin/redis-check-rdb" >"$out/redis-server"
chmod +x "$out/redis-server"
"$out/redis-server" --version

servers=${SERVERS_DIR:-target/servers}
mkdir -p "$servers"
servers=$(cd "$servers" && pwd)

# One by one: beside each other they are so slow under qemu that what is to be due later is due too soon.
sessions() {
    DEHYDRATOR_SERVER=$out/redis-server DEHYDRATOR_MODULE=$module DEHYDRATOR_CLI=$servers/redis-cli \
        cargo test --locked --test server -- --test-threads 1 session::
}

# This machine's server is another build of the same version, or one would not load what the other saves.
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
# Which C library it needs: dpkg-shlibdeps wants to see a source package, and the libraries' own packages.
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
