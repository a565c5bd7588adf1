#!/bin/sh
# shellcheck disable=SC1091
#
# Download the client libraries of the examples, and build what is needed. Does nothing if all is there.
#
#     target/examples/venv     a Python environment with the packages in examples/requirements.txt
#     examples/node_modules    the packages in examples/package-lock.json, where Node finds them
#     target/examples/ruby     redis-rb 5 and redis-client, of Debian trixie, for RUBYLIB
#     target/examples/php      Predis 2, of Debian trixie, for PHP's include path
#
# Those of Ruby and PHP are downloaded by apt-get with its own folders, unpacked, and not installed. They
# are omitted if apt-get has no Debian sources, as on Ubuntu: then their folder contains `left-out`.
set -eu
cd "$(dirname "$0")/.."
. scripts/apt.sh

# Older system versions would fail with unclear errors.
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "The examples need Python 3.10 or later; this is $(python3 --version)." >&2
    exit 1
fi
if ! node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)'; then
    echo "The examples need Node 18 or later, as from https://nodejs.org; this is $(node --version)." >&2
    exit 1
fi

# Each folder keeps a copy of the list that it was made from.
venv=target/examples/venv
if ! cmp -s examples/requirements.txt "$venv/made-from"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r examples/requirements.txt
    cp examples/requirements.txt "$venv/made-from"
fi
modules=examples/node_modules
if ! cmp -s examples/package-lock.json "$modules/.made-from"; then
    npm ci --prefix examples --omit=dev --no-audit --no-fund --loglevel=error
    cp examples/package-lock.json "$modules/.made-from"
fi

# once <name> <command>...: creates target/examples/<name>, unless it exists. It keeps a copy of this script.
once() {
    place=target/examples/$1
    shift
    ! cmp -s scripts/examples.sh "$place/made" || return 0
    rm -rf "$place"
    if [ "$(sed -n 's/^ID=//p' /etc/os-release)" = debian ]; then
        "$@" "$place"
    else
        mkdir -p "$place"
        echo "$place is left out: its packages are Debian's." | tee "$place/left-out" >&2
    fi
    cp scripts/examples.sh "$place/made"
}

ruby_of_trixie() {
    debian "$1" trixie ruby-redis ruby-redis-client ruby-connection-pool \
        ruby-redis-clustering ruby-redis-cluster-client
    mkdir "$1/lib"
    cp -R "$1"/usr/share/rubygems-integration/all/gems/*/lib/. "$1/lib"
}

php_of_trixie() { debian "$1" trixie php-predis; }

once ruby ruby_of_trixie
once php php_of_trixie
