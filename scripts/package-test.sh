#!/usr/bin/env bash
# Install the .deb that scripts/package.sh has made, as its README.Debian says, with the servers that Debian
# packages; start each server with it; use it; and remove it again.
#
#   scripts/package-test.sh [suite...]
#
#       PACKAGES    another folder than target/package. If it has a folder `apt`, a repository, the package is installed from
#                   there, as with `dehydrator.asc` beside it users do
#       TAGGED      the commit of a module of which the package's version does not tell it
#       MIRROR      a mirror that has the suites, if it is not this machine's
#
# As root, in a fresh Debian of each suite (by default this machine's and, where that is bookworm, trixie
# too), made by debootstrap in a temporary folder. Otherwise, or where debootstrap may not work (as in some
# containers), the package is only unpacked, and loaded by the servers of scripts/servers.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck disable=SC1091
. scripts/apt.sh

# shellcheck disable=SC1091
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
suites=("$@")
if [ ${#suites[@]} = 0 ]; then
    suites=("$codename")
    [ "$codename" != bookworm ] || suites+=(trixie)
fi
packages=${PACKAGES:-target/package}
package=$(ls "$packages"/dehydrator_*.deb)
tagged=${TAGGED:-$(scripts/commit.sh --here | cut -c 1-8)}
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

# Each commit has a version of its own, later than that of the commit before; changes that were not committed have one too.
versions() {
    local tree=$work/tree versions=() previous=
    mkdir -p "$tree/scripts" "$tree/src"
    cp scripts/version.sh scripts/commit.sh "$tree/scripts/"
    cp Cargo.toml "$tree/"
    versions+=("$("$tree/scripts/version.sh")")
    git -C "$tree" init --quiet
    for second in 1 2; do
        echo $second >"$tree/src/lib.rs"
        git -C "$tree" add .
        GIT_COMMITTER_DATE="2026-11-22T12:00:0${second}Z" \
            git -C "$tree" -c user.name=test -c user.email=test@example.org commit --quiet -m $second
        versions+=("$("$tree/scripts/version.sh")")
        echo other >"$tree/src/lib.rs"
        versions+=("$("$tree/scripts/version.sh")")
    done
    for version in "${versions[@]}"; do
        [ -z "$previous" ] || dpkg --compare-versions "$previous" lt "$version-1" || {
            echo "package-test: $version-1 does not come after $previous" >&2
            exit 1
        }
        previous=$version-1
    done
}
versions

# For a shell that has run(), which starts a server in the foreground on the socket $socket, and cli().
functions() {
    cat <<'SH'
fail() { echo "package-test: $*" >&2; exit 1; }

start() {
    run >"$socket.log" 2>&1 &
    server=$!
    for _ in $(seq 1800); do
        [ "$(cli PING 2>&1)" != PONG ] || return 0
        kill -0 $server 2>/dev/null || break
        sleep 0.1
    done
    cat "$socket.log" "${log:-/dev/null}" >&2
    fail "the server does not start"
}

stop() {
    cli SHUTDOWN SAVE || :
    wait $server || :
}

is() {
    wanted=$1
    shift
    got=$(cli "$@" 2>&1)
    [ "$got" = "$wanted" ] || fail "$*: '$got' instead of '$wanted'"
}
SH
}

# What is done with each server. $conf is its configuration.
try_it() {
    cat <<'SH'
start
is OK DEHYDRATOR.PUSH orders 0 'capture payment 17' order:17
is OK DEHYDRATOR.PUSH orders 600000 'cancel basket 18' order:18
is 'capture payment 17' DEHYDRATOR.POLL orders
# The module is of the commit that the package is of.
commit=$(cli INFO dehydrator | sed -n 's/^dehydrator_git_sha1:\([^[:space:]]*\).*/\1/p')
case $version in
    *+git*."$commit"*) ;;
    *+git*) fail "the package is $version, and the module of $commit" ;;
    # An archive has no commit, and a tag has its own.
    *) [ "$commit" = unknown ] || [ "$commit" = "$tagged" ] || fail "the package is $version, and the module of $commit" ;;
esac
# Sentinel, for one, has a server rewrite its configuration. The next start must not stumble over it.
is OK CONFIG REWRITE
stop
[ "$(grep -c ^loadmodule "$conf")" = 1 ] || fail "CONFIG REWRITE leaves not one loadmodule line in $conf"
start
is 'cancel basket 18' DEHYDRATOR.PULL orders order:18
stop
SH
}

# in_chroot <suite>
in_chroot() {
    local root=$work/$1 mirror servers=redis
    [ "$1" = bookworm ] || servers='redis valkey'
    mirror=${MIRROR:-$(apt_mirror)} || :
    mkdir -p target/debootstrap "$root"
    debootstrap --variant=minbase --cache-dir="$PWD/target/debootstrap" \
        "$1" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 || return
    # Nothing is started but by us.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    # What is thrown away in a minute need not be safe from a power cut: dpkg would sync each file.
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
    cp "$packages"/{dehydrator*.deb,dehydrator-*.tar.gz,SHA256SUMS} "$root/tmp/"
    if [ -d "$packages/apt" ]; then
        cp -r "$packages/apt" "$root/srv/"
        install -D -m 644 "$packages/dehydrator.asc" "$root/etc/apt/keyrings/dehydrator.asc"
        echo 'deb [signed-by=/etc/apt/keyrings/dehydrator.asc] file:/srv/apt stable main' >"$root/etc/apt/sources.list.d/dehydrator.list"
    fi
    {
        cat <<'SH'
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
cd /tmp
SH
        printf "servers='%s' version=%s tagged=%s\n" "$servers" "$(dpkg-deb --field "$package" Version)" "$tagged"
        functions
        cat <<'SH'
sha256sum --quiet -c SHA256SUMS
for name in $servers; do set -- "$@" $name-server; done
if [ -d /srv/apt ]; then
    apt-get -q update >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }
    set -- dehydrator dehydrator-dbgsym "$@"
else
    set -- ./dehydrator*.deb "$@"
fi
apt-get -q install -y --no-install-recommends "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }
# Each link of the pages leads to a file that came with them.
for page in $(find /usr/share/doc/dehydrator -name '*.md'); do
    for link in $(grep -oE '\]\([^):# ]+[)#]' "$page" | sed 's/^](//; s/.$//'); do
        test -e "${page%/*}/$link" || fail "$page leads to $link"
    done
done
packaged() {
    name=$1
    conf=/etc/$name/$name.conf
    socket=/run/$name/test.sock
    log=/var/log/$name/$name-server.log
    # As the service does, but for the port: a chroot has its host's.
    run() {
        cd /var/lib/$name
        exec setpriv --reuid=$name --regid=$name --init-groups $name-server "$conf" \
            --daemonize no --port 0 --unixsocket $socket
    }
    cli() { $name-cli -s $socket "$@"; }
}
for name in $servers; do (
    packaged $name
    # As README.Debian says, and once more.
    command=$(sed -n "s,^ *sudo \(.*/enable $name\)$,\1,p" /usr/share/doc/dehydrator/README.Debian)
    $command >/dev/null
    cp "$conf" "$conf.once"
    $command >/dev/null
    cmp "$conf" "$conf.once"
    # The service's own rules, which no chroot enforces.
    module=$(sed -n 's/^loadmodule //p' "$conf")
    unit=$(find /usr/lib/systemd /lib/systemd -name "$name-server.service" | head -n 1)
    case $module in
        /usr/lib/*) grep -q '^ExecPaths=.* /usr/lib' "$unit" ;;
        *) false ;;
    esac || { echo "package-test: $unit does not let the server load $module" >&2; exit 1; }
    mkdir -p /run/$name
    chown $name:$name /run/$name
SH
        try_it
        cat <<'SH'
    # The live view finds its libraries. What it shows is tested elsewhere: there are no terminals here.
    dehydrator-top --help | grep -q cacert || fail "dehydrator-top does not run"
    # The tarball, which knows nothing of Debian.
    tar -xzf dehydrator-*.tar.gz
    dehydrator-*/dehydrator-top --help | grep -q cacert || fail "the tarball has no live view"
    chmod 755 . dehydrator-*/
    conf=$PWD/$name.conf
    echo "loadmodule $(echo "$PWD"/dehydrator-*/libdehydrator.so)" >"$conf"
    run() { cd "$(mktemp -d)" && exec $name-server "$conf" --port 0 --unixsocket $socket; }
    start
    is OK DEHYDRATOR.PUSH orders 0 'capture payment 17' order:17
    is 'capture payment 17' DEHYDRATOR.POLL orders
    stop
    echo "$($name-server --version | cut -d ' ' -f 1-3): installed, loaded, rewritten, loaded again"
); done
# It does not go while a server is told to load it, and says where. A new version comes all the same.
dpkg -i dehydrator*.deb >/dev/null
for name in $servers; do
    echo 'user worker on nopass ~jobs +dehydrator.poll' >>/etc/$name/$name.conf
done
! dpkg --purge dehydrator-dbgsym dehydrator >/tmp/said 2>&1 || fail "it was removed from under the servers"
for name in $servers; do
    for line in loadmodule 'user worker'; do
        grep -q "^/etc/$name/$name.conf:[0-9]*:$line " /tmp/said || { cat /tmp/said; fail "no word of $line"; }
    done
    test -e "$(sed -n 's/^loadmodule //p' /etc/$name/$name.conf)"
done
# Once it is uninstalled as the page says, it goes, and the servers start. Their data went above.
page=/usr/share/doc/dehydrator/docs/operations.md
line=$(grep -A 1 'sudo sed .*loadmodule' $page | sed 's/sudo //')
for name in $servers; do
    eval "$(echo "$line" | sed "s,/redis/redis,/$name/$name,")"
done
files=$(dpkg -L dehydrator)
dpkg --purge dehydrator >/dev/null
for name in $servers; do (
    packaged $name
    start
    case $(cli DEHYDRATOR.HELP 2>&1) in *'unknown command'*) ;; *) fail "the module is there" ;; esac
    stop
); done
dpkg -i dehydrator*.deb >/dev/null
files="$files $(dpkg -L dehydrator-dbgsym)"
dpkg --purge dehydrator-dbgsym dehydrator >/dev/null
for file in $files; do
    [ -d "$file" ] || [ ! -e "$file" ] || { echo "package-test: $file is left behind" >&2; exit 1; }
done
SH
    } >"$root/tmp/try.sh"
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /bin/sh /tmp/try.sh ||
        exit 1
    echo "$1: removed without a trace"
    rm -rf --one-file-system "$root"
}

# unpacked <server>
unpacked() {
    local dir=$work/$1 servers=$PWD/target/servers
    mkdir -p "$dir"
    dpkg -x "$package" "$dir/root"
    {
        echo 'set -eu'
        functions
        printf 'dir=%q program=%q name=%q cli=%q version=%q tagged=%q\n' "$dir" "$servers/$1" "$1" "$servers/redis-cli" \
            "$(dpkg-deb --field "$package" Version)" "$tagged"
        cat <<'SH'
conf=$dir/test.conf
socket=$dir/s
sed "s,/usr/lib,$dir/root&," "$dir/root/usr/share/dehydrator/dehydrator.conf" >"$conf"
run() { exec "$program" "$conf" --port 0 --unixsocket "$socket" --dir "$dir"; }
cli() { "$cli" -s "$socket" "$@"; }
SH
        try_it
        # shellcheck disable=SC2016
        echo 'echo "$name: unpacked, loaded, rewritten, loaded again"'
    } | bash
}

if [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null && [ -n "$codename" ]; then
    tested=yes
    for suite in "${suites[@]}"; do
        in_chroot "$suite" || tested=
    done
    [ -z "$tested" ] || exit 0
    tail -n 3 "$work/debootstrap.log" >&2
fi
echo "No Debian could be made here by debootstrap: the package is not installed, only unpacked."
scripts/servers.sh target/servers >/dev/null
for server in redis-7.0 redis-8 valkey-8; do
    unpacked "$server"
done
