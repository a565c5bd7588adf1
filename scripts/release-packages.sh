#!/usr/bin/env bash
# Build the packages of integrations/ that are published: for PyPI, npm and RubyGems.
#
#   scripts/release-packages.sh <folder> <modules>
#
#       folder      gets them: wheels, an archive of the source, tarballs of npm, a gem
#       modules     holds <target>/libdehydrator.so for each target of scripts/valkey.sh that there is to be a server for, and
#                   dehydrator-top for its machine, in the folder of the target with musl
#
# The same commit gives the same files. What a package says of whoever publishes it is from dist/publisher.toml, or from the
# file that PUBLISHER names; without that, it is refused.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p "$1"
out=$(cd "$1" && pwd)
modules=$(cd "$2" && pwd)
scripts/publisher.py filled
scripts/package-versions.sh
scripts/setup.sh examples sidekiq
tools=$(scripts/release-tools.sh)
node=$(scripts/node.sh)
export PATH="$node:$PATH"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
pages=$(scripts/publisher.py get repository)/blob/v$version
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
umask 022

# Nothing is built in the tree itself, and nothing is built of what is not part of the project.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
git ls-files -z --cached --others --exclude-standard -- integrations Cargo.toml .github/SECURITY.md dist/ramp.yml |
    xargs -0 cp --parents -t "$tree"
scripts/publisher.py fill "$tree"
for package in python python-server node node-server sidekiq; do
    place=$tree/integrations/$package
    # Where a package is shown, there is none of the other pages beside it.
    sed -E -i "s#\]\(\.\./\.\./#]($pages/#g; s#\]\(\.\./#]($pages/integrations/#g
        s#\]\(([^):\#]+)\)#]($pages/integrations/$package/\1)#g" "$place/README.md"
done

# quietly <command>...: what it prints is told only if it fails.
quietly() { "$@" >"$tree/log" 2>&1 || { cat "$tree/log" >&2; return 1; }; }

build() { quietly "$tools/python" -m build --no-isolation --outdir "$out" "$@"; }

# glibc_of <program>...: the version of glibc that they need.
glibc_of() {
    LC_ALL=C readelf --wide --version-info "$@" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1
}

# programs <target>: the folder with all that a server package has, and its licences.
programs() {
    local target=$1 place=$tree/programs/$1 tools=
    mkdir -p "$place/bin"
    scripts/valkey.sh "$target" "$place/bin"
    mv "$place/bin/VALKEY-LICENCES" "$place/"
    case $target-$(uname -m) in
        x86_64*-aarch64 | aarch64*-x86_64) tools=${target%%-*}-linux-gnu- ;;
    esac
    install -m 755 "$modules/$target/libdehydrator.so" "$place/bin/"
    "${tools}strip" --strip-debug --strip-unneeded --remove-section=.comment "$place/bin/libdehydrator.so"
    # Static: one for both C libraries.
    install -m 755 "$modules/${target%-*}-musl/dehydrator-top" "$place/bin/"
    "${tools}strip" --remove-section=.comment "$place/bin/dehydrator-top"
    install -m 755 scripts/run.sh "$place/bin/dehydrator-server"
    install -m 644 redis.conf "$place/bin/"
    cp "$tree/THIRD-PARTY" "$place/"
    echo "$place"
}

# python_server <programs> <target>: its wheel.
python_server() {
    local place=$tree/integrations/python-server machine=${2%%-*} platform
    case $2 in
        *-musl) platform=musllinux_1_2_$machine ;;
        *) platform=manylinux_$(glibc_of "$1"/bin/{valkey-server,valkey-cli,libdehydrator.so} | tr . _)_$machine ;;
    esac
    cp "$1/VALKEY-LICENCES" "$1/THIRD-PARTY" "$place/"
    PROGRAMS=$1/bin PLATFORM=$platform build --wheel "$place"
}

# node_server <programs> <target>: its tarball.
node_server() {
    local place=$1/node machine=x64 library=glibc suffix=
    case $2 in aarch64-*) machine=arm64 ;; esac
    case $2 in *-musl) library=musl suffix=-musl ;; esac
    cp -r "$tree/integrations/node-server" "$place"
    cp -r "$1/bin" "$1/VALKEY-LICENCES" "$1/THIRD-PARTY" "$place/"
    (
        cd "$place"
        npm pkg set "name=@dehydrator/server-linux-$machine$suffix" "cpu[0]=$machine" "libc[0]=$library"
        quietly npm pack --pack-destination "$out"
    )
}

node_queue() {
    cd "$tree/integrations/node"
    ln -s "$1/integrations/node/node_modules" .
    quietly npm run build
    quietly npm pack --ignore-scripts --pack-destination "$out"
}

scripts/third-party.sh >"$tree/THIRD-PARTY"
build --sdist --wheel "$tree/integrations/python"
for module in "$modules"/*/libdehydrator.so; do
    target=$(basename "$(dirname "$module")")
    place=$(programs "$target")
    python_server "$place" "$target"
    node_server "$place" "$target"
done
scripts/integrations-node.sh --fetch
(node_queue "$PWD")
(cd "$tree/integrations/sidekiq" && quietly gem build sidekiq-dehydrator.gemspec && mv -- *.gem "$out/")
(cd "$out" && sha256sum -- *)
