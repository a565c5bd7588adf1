#!/usr/bin/env bash
# Make the images of a release, as archives in the form of OCI, each for x86-64 and arm64: what scripts/cross.sh has built, on
# the servers' own images. No engine is needed, but root.
#
#   scripts/release-images.sh <folder> registry       from the official images, which buildah fetches
#   scripts/release-images.sh <folder> stand-ins      from empty images in the place of those, where no registry can be reached:
#                                                     nothing in them runs, but the layers that we add are the same
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p "$1"
out=$(cd "$1" && pwd)
bases=$2
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
work=$(mktemp -d)
export BUILDAH_ISOLATION=chroot
images() { buildah --root "$work/images" --runroot "$work/run" "$@"; }
clean() {
    images rm --all >/dev/null 2>&1 || :
    rm -rf --one-file-system "$work"
}
trap clean EXIT

# base <image> <architecture>: prints the name of the image to begin from.
base() {
    local container
    if [ "$bases" = registry ]; then
        echo "docker.io/$1"
        return
    fi
    container=$(images from --arch "$2" scratch)
    images config --arch "$2" --os linux --entrypoint '["docker-entrypoint.sh"]' --workingdir /data "$container"
    images commit --quiet --rm --timestamp "$epoch" "$container" "localhost/stand-in:$2" >/dev/null
    echo "localhost/stand-in:$2"
}

# What the Dockerfile copies from its stage `build`, which this folder replaces.
context=$work/build/dehydrator
module=$context/target/release/libdehydrator.so
top=$context/target/top/release/dehydrator-top
mkdir -p "$context/etc/dehydrator" "$(dirname "$module")" "$(dirname "$top")"
dist/image-configuration <redis.conf >"$context/etc/dehydrator/dehydrator.conf"
scripts/third-party.sh >"$context/THIRD-PARTY"
install -m 644 LICENSE "$context/"

# image <name> <official image> <C library>
image() {
    local name=$1 from=$2 library=$3 list=dehydrator-$1 architecture machine
    images manifest create "$list" >/dev/null
    for architecture in amd64 arm64; do
        machine=x86_64
        tools=
        [ $architecture = amd64 ] || machine=aarch64 tools=aarch64-linux-gnu-
        "${tools}strip" --strip-debug --strip-unneeded --remove-section=.comment \
            -o "$module" "target/cross/$machine-unknown-linux-$library/libdehydrator.so"
        "${tools}strip" --remove-section=.comment \
            -o "$top" "target/cross/$machine-unknown-linux-musl/dehydrator-top"
        find "$work/build" -exec touch -d "@$epoch" {} +
        images bud --quiet --no-cache --arch "$architecture" --os linux --timestamp "$epoch" --format oci \
            --build-arg "SERVER=$(base "$from" $architecture)" --label "org.opencontainers.image.version=$version" \
            --label "org.opencontainers.image.revision=$(git rev-parse HEAD)" --label org.opencontainers.image.licenses=BSD-3-Clause \
            --build-context "build=$work/build" --tag "$list:$architecture" --file Dockerfile "$work/build" >/dev/null
        images manifest add "$list" "$list:$architecture" >/dev/null
    done
    images manifest push --quiet --all "$list" "oci:$work/$name:$version" >/dev/null
    tar -C "$work/$name" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" \
        -cf "$out/dehydrator-$version-$name.oci.tar" .
}

image valkey-8 valkey/valkey:8 gnu
image valkey-8-alpine valkey/valkey:8-alpine musl
image redis-7.2 redis:7.2 gnu
image redis-7.2-alpine redis:7.2-alpine musl
(cd "$out" && ls -l)
