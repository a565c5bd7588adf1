#!/bin/sh
# Fail if the name of a package is somebody else's by now. A name is ours when it is free, or when what is published under it
# names the repository of dist/publisher.toml. One look-up is made for each; an index that cannot be reached is told.
set -eu
cd "$(dirname "$0")/.."

repository=$(scripts/publisher.py get repository)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# told <index> <name> <free | ours | taken | unknown>
told() {
    case $3 in
        free | ours) echo "$1: $2 is $3" ;;
        unknown) echo "$1: could not look for $2: $(tail -n 1 "$work/log")" ;;
        taken)
            echo "$1: $2 is somebody else's by now" >&2
            failed=1
            ;;
    esac
}

# Without running anything of what is found: of wheels the metadata is read.
pypi() {
    if python3 -m pip --disable-pip-version-check index versions "$1" >"$work/log" 2>&1; then
        rm -rf "$work/wheels"
        python3 -m pip --disable-pip-version-check download --quiet --no-deps --only-binary :all: --dest "$work/wheels" "$1" \
            >"$work/log" 2>&1 || true
        for wheel in "$work"/wheels/*.whl; do
            # shellcheck disable=SC2016
            if python3 -c 'import sys, zipfile
one = zipfile.ZipFile(sys.argv[1])
sys.stdout.buffer.write(b"".join(one.read(name) for name in one.namelist() if name.endswith(".dist-info/METADATA")))' \
                "$wheel" 2>/dev/null | grep -qF "$repository"; then
                told PyPI "$1" ours
                return
            fi
        done
        told PyPI "$1" taken
    elif grep -qi 'retrying\|could not fetch\|connection' "$work/log" || ! grep -q 'No matching distribution' "$work/log"; then
        told PyPI "$1" unknown
    else
        told PyPI "$1" free
    fi
}

npm_registry() {
    if npm view "$1" repository.url >"$work/log" 2>&1; then
        if grep -qF "$repository" "$work/log"; then told npm "$1" ours; else told npm "$1" taken; fi
    elif grep -q 'E404' "$work/log"; then
        told npm "$1" free
    else
        told npm "$1" unknown
    fi
}

# `gem` says nothing where it reaches nothing: Sidekiq, which is there for certain, is asked for in the same look-up.
rubygems() {
    gem search --remote "^(sidekiq|$1)\$" >"$work/log" 2>&1 || :
    if ! grep -q '^sidekiq ' "$work/log"; then
        echo 'no answer from the index' >>"$work/log"
        told RubyGems "$1" unknown
    elif ! grep -q "^$1 " "$work/log"; then
        told RubyGems "$1" free
    elif gem specification --remote "$1" 2>/dev/null | grep -qF "$repository"; then
        told RubyGems "$1" ours
    else
        told RubyGems "$1" taken
    fi
}

pypi dehydrator-queue
pypi dehydrator-queue-server
npm_registry dehydrator-queue
for platform in linux-x64 linux-arm64 linux-x64-musl linux-arm64-musl; do
    npm_registry "@dehydrator/server-$platform"
done
rubygems sidekiq-dehydrator
exit $failed
