#!/usr/bin/env bash
# Build the image that the Dockerfile describes, and use it as `docker run` would: no engine is needed, and no
# registry of images. As root.
#
#   scripts/image-test.sh
#   scripts/image-test.sh --release <folder>        instead uses the images for x86-64 of a release: see scripts/release-images.sh
#
# Debian's own packages stand in for the images that the Dockerfile begins from: a fresh Debian bookworm with this machine's Rust
# for rust:1-bookworm, and a fresh Debian trixie for the server's image, with an entrypoint that does what those of the official
# images are documented to do. So every line of the Dockerfile is tried, the configuration that it makes, and that the module fits
# into a Debian that it was not built on; the official images themselves are not. An image of a release that has stand-ins for them
# too gets that Debian's files; one for Alpine, also musl, and a server that was built for it.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

release=
[ "${1:-}" != --release ] || release=$(cd "$2" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
if [ "$(id -u)" != 0 ]; then
    echo "image-test: only root can make a Debian; try sudo" >&2
    exit 1
fi
fail() { echo "image-test: $*" >&2; exit 1; }

work=$(mktemp -d)
# Images and containers of this run's own, so that nothing of it stays, and nothing of anybody's is touched.
export BUILDAH_ISOLATION=chroot
images() { buildah --root "$work/images" --runroot "$work/run" "$@"; }
clean() {
    # A test that failed leaves its server running.
    ! declare -F cli >/dev/null || cli SHUTDOWN NOSAVE >/dev/null 2>&1 || :
    images rm --all >/dev/null 2>&1 || :
    rm -rf --one-file-system "$work"
}
trap clean EXIT

# debian <suite> <folder> <package>...: a fresh Debian.
debian() {
    local suite=$1 root=$2 mirror
    shift 2
    mirror=$(apt_mirror) || :
    mkdir -p target/debootstrap
    debootstrap --variant=minbase --cache-dir="$PWD/target/debootstrap" --include="$(IFS=,; echo "$*")" \
        "$suite" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 || {
        tail -n 3 "$work/debootstrap.log" >&2
        fail "no Debian $suite could be made"
    }
}

# image <name> <folder> <setting>...: makes an image of a folder, which is used up.
image() {
    local name=$1 root=$2 container
    shift 2
    container=$(images from scratch)
    images copy --quiet "$container" "$root" / >/dev/null
    rm -rf --one-file-system "$root"
    [ $# = 0 ] || images config "$@" "$container"
    images commit --quiet --rm "$container" "$name" >/dev/null
}

# rust: the image that the module is built in.
rust() {
    debian bookworm "$work/rust" ca-certificates gcc libc6-dev
    mkdir -p "$work/rust/usr/local/rust" "$work/rust/usr/local/cargo"
    (cd "$(rustc --print sysroot)" && tar -c --exclude=./share .) | tar -x -C "$work/rust/usr/local/rust"
    # What Cargo has fetched here is not fetched again.
    cargo fetch --quiet --locked
    cargo fetch --quiet --locked --manifest-path console/Cargo.toml
    cp -a "${CARGO_HOME:-$HOME/.cargo}/registry" "$work/rust/usr/local/cargo/"
    image rust:1-bookworm "$work/rust" --env PATH=/usr/local/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        --env CARGO_HOME=/usr/local/cargo
}

# of <server> [package]...: an image with that server, as the official ones are.
of() {
    local root=$work/$1
    debian trixie "$root" "$1-server" "${@:2}"
    # As in the official images.
    chroot "$root" usermod --uid 999 "$1"
    install -d -o 999 -g 999 "$root/data"
    cat >"$root/usr/local/bin/docker-entrypoint.sh" <<SH
#!/bin/sh
# A configuration is given to the server; root gives /data, and the server, to the server's own user.
set -e
case \$1 in *.conf | -*) set -- $1-server "\$@" ;; esac
if [ "\$1" = $1-server ] && [ "\$(id -u)" = 0 ]; then
    find . ! -user $1 -exec chown $1 {} +
    exec setpriv --reuid=$1 --regid=$1 --clear-groups "\$0" "\$@"
fi
exec "\$@"
SH
    chmod 755 "$root/usr/local/bin/docker-entrypoint.sh"
    image "$1:stand-in" "$root" --entrypoint '["docker-entrypoint.sh"]' --workingdir /data --cmd "$1-server"
}

# musl <server>: prints the path of a program of it that was built for musl.
musl() {
    case $1 in
        redis) built_server musl redis bookworm 7.0 CC=musl-gcc ;;
        valkey) scripts/valkey.sh x86_64-unknown-linux-musl "$work/musl" && echo "$work/musl/valkey-server" ;;
    esac
}

# port: one that nobody listens to.
port() {
    local port
    for port in $(shuf -i 20000-30000 -n 50); do
        (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
    fail "no port is free"
}

commit=$(scripts/commit.sh --here | cut -c 1-8)
echo "Making the images to begin from..."
names=(redis valkey)
[ -z "$release" ] || names=({redis-7.2,valkey-8}{,-alpine})
[ -n "$release" ] || rust
for name in "${names[@]}"; do
    server=${name%%-*}
    if [ -n "$release" ]; then
        name=dehydrator-$version-$name
        container=$(images from --quiet "oci-archive:$release/$name.oci.tar:$version")
        root=$(images mount "$container")
        if [ ! -e "$root/usr/local/bin/docker-entrypoint.sh" ]; then
            program=
            case $name in *-alpine) program=$(musl "$server") ;; esac
            of "$server" ${program:+musl}
            cp -an "$(images mount "$(images from "$server:stand-in")")/." "$root/"
            [ -z "$program" ] || install -m 755 "$program" "$root/usr/bin/$server-server"
        fi
    else
        of "$server"
        name=dehydrator:$server
        images bud --quiet --layers --build-arg "SERVER=$server:stand-in" --tag "$name" . >"$work/build.log" 2>&1 || {
            tail -n 40 "$work/build.log" >&2
            fail "the image cannot be built"
        }
        container=$(images from "$name")
        root=$(images mount "$container")
    fi
    number=$(port)
    words_of() { images inspect --format "{{range .OCIv1.Config.$1}}{{.}} {{end}}" "$container"; }
    entrypoint=$(words_of Entrypoint)
    command="$entrypoint$(words_of Cmd)"
    start() {
        # shellcheck disable=SC2086  # a command and its arguments
        images run "$container" -- $command --port "$number" >>"$work/log" 2>&1 &
        running=$!
        for _ in $(seq 1800); do
            [ "$(cli PING 2>&1)" != PONG ] || return 0
            kill -0 $running 2>/dev/null || break
            sleep 0.1
        done
        cat "$work/log" >&2
        fail "the server does not start"
    }
    cli() { redis-cli -p "$number" "$@"; }
    is() {
        local wanted=$1 got
        shift
        got=$(cli "$@" 2>&1)
        [ "$got" = "$wanted" ] || fail "$*: '$got' instead of '$wanted'"
    }
    stop() {
        # As `docker stop` does.
        kill -TERM "$(cli INFO server | sed -n 's/^process_id:\([0-9]*\).*/\1/p')"
        wait $running || :
    }
    # What examples/beside_managed.md has `docker run` start, with a password.
    beside=$(sed -n 's/^    dehydrator \(\/.*\)/\1/p' examples/beside_managed.md)
    beside=${beside//\"\$PASSWORD\"/secret}
    [ -n "$beside" ] || fail "the page has no line that starts the image"

    start
    is OK DEHYDRATOR.PUSH jobs 0 'capture payment 17' order:17
    is OK DEHYDRATOR.PUSH jobs 600000 'cancel basket 18' order:18
    is 'capture payment 17' DEHYDRATOR.POLL jobs
    user=$(stat -c %u "$root/data/appendonlydir" 2>/dev/null || echo none)
    case $user in 0 | none) fail "the data are not in /data, or are root's: $user" ;; esac
    [ "$(cli INFO dehydrator | sed -n 's/^dehydrator_git_sha1:\([0-9a-z]*\).*/\1/p')" = "$commit" ] ||
        fail "INFO does not tell the commit $commit"
    [[ $(images run "$container" -- dehydrator-top --help) == *cacert* ]] || fail "the live view does not run"
    # The server's user may write where its configuration is.
    is OK CONFIG SET timeout 77
    is OK CONFIG REWRITE
    stop
    start
    is 'cancel basket 18' DEHYDRATOR.PULL jobs order:18
    [ "$(cli CONFIG GET timeout | tail -n 1)" = 77 ] || fail "CONFIG REWRITE has kept nothing"
    stop
    configuration=/usr/local/etc/dehydrator
    # A server takes its users from one place only, and CONFIG REWRITE has written them into the configuration.
    images run "$container" -- sh -c "touch $configuration/users.acl && chown 999 $configuration/users.acl &&
        sed -i '/^user /d' $configuration/dehydrator.conf && chown 999 $configuration/dehydrator.conf"
    command="$command --aclfile $configuration/users.acl"
    start
    is OK ACL SETUSER worker on nopass '~jobs' +dehydrator.poll
    is OK ACL SAVE
    stop
    grep -q '^user worker ' "$root$configuration/users.acl" || fail "ACL SAVE has kept nothing"

    command="$entrypoint $beside"
    export REDISCLI_AUTH=secret
    start
    is OK DEHYDRATOR.PUSH jobs 600000 'cancel basket 19' order:19
    kill -KILL "$(cli INFO server | sed -n 's/^process_id:\([0-9]*\).*/\1/p')"
    wait $running || :
    start
    is 'cancel basket 19' DEHYDRATOR.LOOK jobs order:19
    (unset REDISCLI_AUTH; cli PING 2>&1) | grep -q NOAUTH || fail "it asks for no password"
    stop
    unset REDISCLI_AUTH
    images umount "$container" >/dev/null
    echo "$name: started as its entrypoint does, stopped, started again with its data;" \
        "started, killed and started again as examples/beside_managed.md has it"
done
