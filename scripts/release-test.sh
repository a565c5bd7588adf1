#!/usr/bin/env bash
# Try a release as its users would have it, in places that have nothing of this clone but the files that are published.
#
#   scripts/release-test.sh [folder]       (default: target/release-files, as scripts/release.sh has made it)
#
#       ONLY=<step>...    some of the steps below
#       KEY=              as for scripts/release.sh: makes the release a second time, and compares
#
# As root, on x86-64: for debootstrap and chroot. An Ubuntu is tried where debootstrap reaches one: UBUNTU=<mirror>.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

release=$(cd "${1:-target/release-files}" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

fail() {
    echo "release-test: $*" >&2
    exit 1
}

# --- servers ---------------------------------------------------------------------------------------------------
socket=$work/socket
cli() { redis-cli -s "$socket" "$@"; }

# serve <module> <server's command>...: starts it with the module, in an empty folder.
serve() {
    local module=$1
    shift
    (cd "$(mktemp -d -p "$work")" && exec "$@" --port 0 --unixsocket "$socket" --save '' --loadmodule "$module") \
        >"$work/log" 2>&1 &
    server=$!
    for _ in $(seq 600); do
        [ "$(cli PING 2>&1)" != PONG ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat "$work/log" >&2
    fail "the server does not start: $*"
}

stop() {
    cli SHUTDOWN NOSAVE 2>/dev/null || :
    wait "$server" || :
}

# session <README.md>: plays its first session, and compares each reply with the one shown. How long each took does not count.
session() {
    local page=$1 line
    awk '/^```console$/ { inside = 1; next } /^```$/ { if (inside) exit } inside && !/^\([0-9.]+s\)$/' "$page" >"$work/shown"
    sed -n 's/^127.0.0.1:6379> //p' "$work/shown" >"$work/commands"
    while read -r line; do
        echo "127.0.0.1:6379> $line"
        echo "$line" | cli --no-raw | sed -E '/^\([0-9.]+s\)$/d'
    done <"$work/commands" >"$work/played"
    [ -s "$work/commands" ] || fail "$page has no session"
    diff "$work/shown" "$work/played" || fail "the session of $page went otherwise"
}

# commit_of_info: fails unless INFO tells the release's version and commit.
commit_of_info() {
    cli INFO dehydrator | tr -d '\r' >"$work/info"
    grep -qx "dehydrator_version:$version" "$work/info" || fail "INFO does not tell $version"
    grep -qx "dehydrator_git_sha1:${commit:0:8}" "$work/info" || fail "INFO does not tell the commit $commit"
    grep -qx 'dehydrator_git_dirty:0' "$work/info" || fail "INFO tells changes that were not committed"
}
commit=$(jq -r '.predicate.buildDefinition.resolvedDependencies[0].digest.gitCommit' "$release/provenance.intoto.json")

# panics: forty in a command, forty in half a reply. The server goes on.
panics() {
    local told
    for _ in $(seq 40); do
        told=$(cli DEHYDRATOR.DEBUG k PANIC 2>&1) || :
        case $told in *'internal error'*) ;; *) cat "$work/log" >&2; fail "a panic was answered by '$told'" ;; esac
        told=$(cli DEHYDRATOR.DEBUG k PANIC-IN-REPLY 2>&1) || :
        [ "$told" = first ] || { cat "$work/log" >&2; fail "a panic in a reply was answered by '$told'"; }
    done
    [ "$(cli PING)" = PONG ] || fail "the server ended"
}

# try_module <target> <what it is> <server's command>...: the release's module from its tarball, then the build with hooks.
try_module() {
    local target=$1 what=$2 name folder seconds=$SECONDS
    shift 2
    name=dehydrator-$version-linux-${target%%-*}
    case $target in *-musl) name=$name-musl ;; esac
    folder=$work/$name
    [ -d "$folder" ] || tar -xzf "$release/$name.tar.gz" -C "$work"
    serve "$folder/libdehydrator.so" "$@"
    session "$folder/README.md"
    commit_of_info
    stop
    serve "$PWD/target/cross/$target/debug/libdehydrator.so" "$@"
    panics
    stop
    echo "$target on $what: INFO tells the commit; README's session; 80 panics ($((SECONDS - seconds)) s)"
}

# --- the steps ---------------------------------------------------------------------------------------------------
# What docs/operations.md has users run, in a folder with the key, the sums, and one file: as it is, and with a byte changed.
check() {
    local file place=$work/check length number=0
    awk '/^### / { section = /Check a download/ } !section { next } /^```$/ { exit } inside; /^```sh$/ { inside = 1 }' \
        docs/operations.md >"$work/commands.sh"
    grep -q 'gpg --verify' "$work/commands.sh" || fail "docs/operations.md has no commands that check a download"
    holds() { (cd "$place" && HOME=$place GNUPGHOME=$(mktemp -d -p "$work") sh -eu "$work/commands.sh") >"$work/log" 2>&1; }
    while read -r file; do
        rm -rf "$place"
        mkdir -p "$place/$(dirname "$file")"
        cp "$release"/{dehydrator.asc,SHA256SUMS,SHA256SUMS.asc} "$place/"
        cp "$release/$file" "$place/$file"
        holds || { cat "$work/log" >&2; fail "$file is refused"; }
        length=$(stat -c %s "$place/$file")
        # Another byte than the one that is there, in the middle.
        dd if="$place/$file" bs=1 count=1 skip=$((length / 2)) status=none | tr '\000-\377' '\001-\377\000' |
            dd of="$place/$file" bs=1 seek=$((length / 2)) conv=notrunc status=none
        ! holds || fail "$file is accepted although a byte was changed"
        number=$((number + 1))
    done < <(cd "$release" && find . -type f -printf '%P\n' | LC_ALL=C sort)
    echo "$number files: each is accepted as it is, and refused with one byte changed"
}

# The .deb by apt from the repository's folder, and the tarball, in clean Debians: see scripts/package-test.sh.
apt() {
    local folder=$work/debian
    mkdir "$folder"
    cp "$release/apt/pool/"*_amd64.deb "$release/dehydrator-$version-linux-x86_64.tar.gz" "$folder/"
    cp -r "$release/apt" "$release/dehydrator.asc" "$folder/"
    (cd "$folder" && sha256sum -- *.deb *.tar.gz >SHA256SUMS)
    PACKAGES=$folder TAGGED=${commit:0:8} scripts/package-test.sh bookworm trixie
    if [ -n "${UBUNTU:-}" ]; then
        PACKAGES=$folder TAGGED=${commit:0:8} MIRROR=$UBUNTU scripts/package-test.sh noble
    else
        echo "left out: Ubuntu (UBUNTU=<mirror>)"
    fi
}

# The .rpm by dnf from the repository's folder, into an empty root. No distribution with rpm can be reached by Debian's tools:
# an empty package stands in for the C library that it asks for, and the server is Debian's.
dnf() {
    local root=$work/trixie mirror
    mirror=$(apt_mirror) || :
    mkdir -p target/debootstrap
    debootstrap --variant=minbase --cache-dir="$PWD/target/debootstrap" trixie "$root" "$mirror" >"$work/log" 2>&1 || {
        tail "$work/log" >&2
        fail "no Debian could be made"
    }
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
    cp -r "$release/yum" "$release/dehydrator.asc" "$root/srv/"
    cat >"$root/srv/try.sh" <<'TRY'
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
cd /srv
apt-get -q install -y --no-install-recommends dnf rpm createrepo-c redis-server >log 2>&1 || { cat log; exit 1; }
{
    printf 'Name: base\nVersion: 1\nRelease: 1\nSummary: Stands in\nLicense: none\nBuildArch: noarch\n'
    rpm -qp --requires yum/dehydrator-*.x86_64.rpm 2>/dev/null | grep -v '^rpmlib' | sed 's/ *[<=>].*//; s/^/Provides: /'
    printf '%%description\nStands in.\n%%files\n'
} >base.spec
rpmbuild --quiet -bb --define '_rpmdir /srv/base' base.spec 2>log || { cat log; exit 1; }
createrepo_c --quiet base
mkdir repos
cat >repos/test.repo <<'REPO'
[base]
name=base
baseurl=file:///srv/base
gpgcheck=0
[dehydrator]
name=dehydrator
baseurl=file:///srv/yum
gpgkey=file:///srv/dehydrator.asc
repo_gpgcheck=1
gpgcheck=0
REPO
dnf_in() { dnf -y --installroot=/srv/root --releasever=1 --forcearch=x86_64 --setopt=reposdir=/srv/repos --setopt=keepcache=0 "$@" >log 2>&1; }
dnf_in install dehydrator || { cat log; exit 1; }
/srv/root/usr/bin/dehydrator-top --help | grep -q cacert
module=/srv/root$(sed -n 's/^loadmodule //p' root/usr/share/dehydrator/dehydrator.conf)
redis-server --port 0 --unixsocket s --save '' --loadmodule "$module" --daemonize yes >/dev/null
for _ in 1 2 3 4 5 6 7 8 9; do redis-cli -s s PING >/dev/null 2>&1 && break; sleep 0.5; done
[ "$(redis-cli -s s DEHYDRATOR.PUSH jobs 0 element id)" = OK ]
[ "$(redis-cli -s s DEHYDRATOR.POLL jobs)" = element ]
redis-cli -s s SHUTDOWN NOSAVE
# A repository that somebody has changed is refused.
sed -i 's/revision>1</revision>2</' yum/repodata/repomd.xml
! dnf_in --refresh install dehydrator-none || { echo "a changed repository was accepted"; exit 1; }
grep -qi 'gpg\|sign' log || { cat log; exit 1; }
TRY
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /bin/sh /srv/try.sh || fail "the .rpm"
    rm -rf --one-file-system "$root"
    echo "the .rpm for x86-64: installed by dnf from the signed repository, loaded, used; a changed repository is refused"
    rpm -qp --requires "$release/yum/dehydrator-$version-1.aarch64.rpm" 2>/dev/null | grep -q '^libc.so.6(GLIBC_2.17)' ||
        fail "the .rpm for arm64 does not ask for the C library that it needs"
}

# The modules on servers whose allocators differ.
modules() {
    local server library
    scripts/cross.sh --debug x86_64-unknown-linux-{gnu,musl}
    server=$(built_server bundled redis bookworm 7.0 MALLOC=jemalloc)
    try_module x86_64-unknown-linux-gnu "Redis 7.0 with its bundled jemalloc" "$server"
    server=$(built_server libc redis bookworm 7.0)
    try_module x86_64-unknown-linux-gnu "Redis 7.0 with the C library's allocator" "$server"
    server=$(built_server musl redis bookworm 7.0 CC=musl-gcc)
    try_module x86_64-unknown-linux-musl "Redis 7.0 built with musl-gcc" "$server"
    for library in gnu musl; do
        scripts/valkey.sh "x86_64-unknown-linux-$library" "$work/valkey-$library"
        try_module "x86_64-unknown-linux-$library" "the Valkey that zig builds for $library" "$work/valkey-$library/valkey-server"
    done
}

# The modules for arm64, under qemu, on Debian's servers and on those that zig has built.
arm64() {
    local servers=$work/arm64 run library folder=$work/arm64-deb
    scripts/cross.sh --debug aarch64-unknown-linux-{gnu,musl}
    (export ARCHITECTURE=arm64 && scripts/servers.sh "$servers" redis-8 valkey-8 && cd "$servers" && debian trixie trixie musl)
    # Where programs look for their loader.
    ln -s usr/lib "$servers/trixie/lib"
    run=(qemu-aarch64-static -L "$servers/trixie")
    try_module aarch64-unknown-linux-gnu "Debian's Redis 8, under qemu" "$servers/redis-8"
    try_module aarch64-unknown-linux-gnu "Debian's Valkey 8, under qemu" "$servers/valkey-8"
    for library in gnu musl; do
        scripts/valkey.sh "aarch64-unknown-linux-$library" "$work/arm64-$library"
        try_module "aarch64-unknown-linux-$library" "the Valkey that zig builds for $library, under qemu" \
            "${run[@]}" "$work/arm64-$library/valkey-server"
    done
    "${run[@]}" "$work/dehydrator-$version-linux-aarch64/dehydrator-top" --help | grep -q cacert || fail "dehydrator-top for arm64"
    dpkg -x "$release/apt/pool/dehydrator_$version-1_arm64.deb" "$folder"
    serve "$folder$(sed -n 's/^loadmodule //p' "$folder/usr/share/dehydrator/dehydrator.conf")" "$servers/redis-8"
    commit_of_info
    stop
    echo "the .deb for arm64: unpacked, and its module loaded"
}

# A server that is too old says what is needed.
refused() {
    local folder=$work/bullseye name=dehydrator-$version-linux-x86_64 program
    apt_folders "$folder/apt" bullseye
    apt_in "$folder/apt" update
    mkdir -p "$folder/debs"
    (cd "$folder/debs" && apt_in "$folder/apt" download redis-tools libc6 libsystemd0 libjemalloc2 liblua5.1-0 lua-cjson lua-bitop \
        libhiredis0.14 libssl1.1 liblzma5 libzstd1 liblz4-1 libgcrypt20 libgpg-error0 libcap2 libstdc++6 libgcc-s1 libatomic1)
    for program in "$folder/debs"/*.deb; do dpkg -x "$program" "$folder"; done
    [ -d "$work/$name" ] || tar -xzf "$release/$name.tar.gz" -C "$work"
    # One program under several names.
    program=$folder/redis-server
    cp "$folder/usr/bin/redis-check-rdb" "$program"
    ! timeout 20 "$folder"/lib/x86_64-linux-gnu/ld-*.so \
        --library-path "$folder/lib/x86_64-linux-gnu:$folder/usr/lib/x86_64-linux-gnu" "$program" \
        --port 0 --unixsocket "$socket" --loadmodule "$work/$name/libdehydrator.so" >"$work/log" 2>&1 || fail "Redis 6.0 has loaded it"
    grep -q 'this server is too old: Redis 7.0 or later, or Valkey, is needed' "$work/log" || {
        cat "$work/log" >&2
        fail "Redis 6.0 does not say what is needed"
    }
    echo "Redis 6.0 refuses the module, and says that 7.0 is needed"
}

# What scripts/release-images.sh has added to the servers' images.
images() {
    local archive index file
    for archive in "$release"/images/*.oci.tar; do
        mkdir "$work/image"
        tar -xf "$archive" -C "$work/image"
        index=$work/image/blobs/sha256/$(jq -r '.manifests[0].digest' "$work/image/index.json" | cut -d : -f 2)
        [ "$(jq -c '[.manifests[].platform.architecture] | sort' "$index")" = '["amd64","arm64"]' ] || fail "$archive: not both machines"
        for manifest in $(jq -r '.manifests[].digest' "$index" | cut -d : -f 2); do
            for layer in $(jq -r '.layers[].digest' "$work/image/blobs/sha256/$manifest" | cut -d : -f 2); do
                tar -tvzf "$work/image/blobs/sha256/$layer"
            done >"$work/log" 2>&1
            grep -q '999/999 .* usr/local/etc/dehydrator/dehydrator.conf$' "$work/log" || fail "$archive: the configuration is not the server's"
            grep -q '999/999 .* usr/local/etc/dehydrator/$' "$work/log" || fail "$archive: the configuration's folder is not the server's"
            for file in lib/libdehydrator.so bin/dehydrator-top share/doc/dehydrator/{LICENSE,THIRD-PARTY}; do
                grep -q " usr/local/$file\$" "$work/log" || fail "$archive: no $file"
            done
        done
        rm -rf "$work/image"
        echo "$(basename "$archive"): for x86-64 and arm64, with module, live view, licences, and a configuration that the server may rewrite"
    done
    scripts/image-test.sh --release "$release/images"
}

# README's command for a folder of a release, and its session, as a newcomer copies them.
quickstart() {
    local place=$work/quickstart command seconds=$SECONDS
    mkdir "$place"
    tar -xzf "$release/dehydrator-$version-linux-x86_64.tar.gz" -C "$place" --strip-components=1 --wildcards '*/README.md'
    command=$(awk '/^From a folder with a release/ { here = 1 } here && /^```$/ { exit } inside; here && /^```sh$/ { inside = 1 }' "$place/README.md")
    [[ $command == *'<folder>'*dehydrator-server* ]] || fail "README.md does not name a folder's packages"
    (cd "$place" && exec sh -c "${command/<folder>/"$release/packages"}") >"$work/log" 2>&1 &
    server=$!
    # What the server tells to type, without the port that is the usual one.
    talk() {
        # shellcheck disable=SC2046  # a command and its arguments
        env PATH="$place/venv/bin:$PATH" $(sed -n 's/^ *\(dehydrator-cli\)/\1/p' "$work/log") "$@"
    }
    until grep -q ' dehydrator-cli' "$work/log" && [ "$(talk PING 2>&1)" = PONG ]; do
        if ! kill -0 $server 2>/dev/null || [ $((SECONDS - seconds)) -ge 60 ]; then
            cat "$work/log" >&2
            fail "no server within a minute"
        fi
        sleep 0.2
    done
    (
        cli() { talk "$@"; }
        session "$place/README.md"
        cli SHUTDOWN NOSAVE
    )
    wait $server || :
    echo "README's first command and its session: $((SECONDS - seconds)) s, of which 5 are the delay in the session"
    [ $((SECONDS - seconds)) -lt 60 ] || fail "that takes more than a minute"
}

# The other packages.
packages() { scripts/release-packages-test.sh "$release/packages"; }

# The same files once more: what is compiled is compiled anew.
twice() {
    if [ -n "${KEY:-}" ]; then
        rm -rf target/cross target/valkey/cache target/valkey/*/built
        scripts/release.sh target/release-again
        diff -r "$release" target/release-again || fail "the release is not the same twice"
        echo "made twice: no byte differs"
    else
        echo "left out: making the release twice (KEY=)"
    fi
}

scripts/setup.sh arm64 asan package release musl
for step in ${ONLY:-quickstart check apt dnf modules arm64 refused images packages twice}; do
    echo "--- $step ($(date +%T))"
    $step
done
echo "--- all of that has passed ($(date +%T))"
