#!/bin/sh
# Print the version of what is packaged here: that of Cargo.toml; behind it when its commit was made, in UTC, so that what
# is newer has the greater version; and which commit that is. Without git there is the version alone.
#
#   0.1.0+git20261122.120304.eb3b0b75         and .dirty behind it, if a file is not as it was committed
#   0.1.0                                     if that commit has the tag v0.1.0
set -eu
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
commit=$(scripts/commit.sh --here)
if [ "$commit" != unknown ]; then
    # A release, as it was tagged.
    if git --no-optional-locks diff --quiet HEAD && git tag --points-at HEAD | grep -qxF "v$version"; then
        echo "$version"
        exit
    fi
    time=$(TZ=UTC0 git log -1 --date=format-local:%Y%m%d.%H%M%S --format=%cd)
    version=$version+git$time.$(echo "$commit" | cut -c 1-8)
    git --no-optional-locks diff --quiet HEAD || version=$version.dirty
fi
echo "$version"
