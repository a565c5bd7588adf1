#!/usr/bin/env bash
# Install the packages that scripts/release-packages.sh has built as their users will, and use them: a server by pip and by npm,
# tests and a Celery task on it, a worker of Node, jobs of Sidekiq.
#
#   scripts/release-packages-test.sh <folder> [--quick]
#
#       --quick     by pip and npm from the folder, in two minutes; otherwise from indexes, which are started here
#
# What the packages depend on comes from the usual indexes.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(cd "$1" && pwd)
quick=${2-}
scripts/setup.sh examples sidekiq
tools=$(scripts/release-tools.sh)
node=$(scripts/node.sh)
export PATH="$node:$PATH"
root=$PWD
# version_of <package>
version_of() { "$root/scripts/package-versions.sh" | sed -n "s/^$1 \([^,]*\),.*/\1/p"; }

work=$(mktemp -d)
# Also those who are not root use what is installed here.
chmod 755 "$work"
pids=()
trap '[ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

fail() { echo "release-packages-test.sh: $*" >&2; exit 1; }

# step <what>: tells what comes, and when it began.
step() { echo "--- $1 ($(date +%T))"; }

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# answering <url>: waits until it does.
answering() {
    for _ in $(seq 1800); do
        ! curl --silent --fail --output /dev/null "$1" || return 0
        sleep 0.1
    done
    fail "nothing answers at $1"
}

python_packages() {
    local index=(--find-links "$folder")
    if [ -z "$quick" ]; then
        local port
        port=$(free_port)
        "$tools/pypi-server" run --interface 127.0.0.1 --port "$port" --disable-fallback "$folder" >"$work/pypiserver.log" 2>&1 &
        pids+=($!)
        answering "http://127.0.0.1:$port/simple/"
        index=(--extra-index-url "http://127.0.0.1:$port/simple/")
    fi
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check "${index[@]}" \
        "dehydrator-queue[celery,redis,server]==$(version_of python)" pytest
    cp -r integrations/python-server/tests "$work/tests"
    (cd "$work/tests" && "$work/venv/bin/python" -m pytest -q -rP -p no:cacheprovider .)
}

node_packages() {
    local project=$work/project
    mkdir "$project"
    cp integrations/node-server/tests/server.test.mjs "$project/"
    (
        cd "$project"
        npm init --yes >/dev/null
        if [ -n "$quick" ]; then
            npm install --no-audit --no-fund --loglevel=error ioredis "$folder/dehydrator-queue-$(version_of node).tgz" \
                "$folder/dehydrator-server-linux-x64-$(version_of node-server).tgz"
        else
            registry
            npm install --no-audit --no-fund --loglevel=error --registry "$registry" ioredis dehydrator-queue \
                @dehydrator/server-linux-x64
        fi
        node --test --test-reporter=spec server.test.mjs
    )
}

# verdaccio: installs it. The node-fetch that it asks for is not to be had everywhere.
verdaccio() {
    local list='{ "private": true, "dependencies": { "verdaccio": "6.8.0" }, "overrides": { "node-fetch": "2.7.0" } }'
    [ "$(cat target/verdaccio/package.json 2>/dev/null)" != "$list" ] || return 0
    rm -rf target/verdaccio
    mkdir -p target/verdaccio
    echo "$list" >target/verdaccio/package.json
    npm install --prefix target/verdaccio --no-package-lock --no-audit --no-fund --loglevel=error
}

# registry: starts an index for npm with our packages, which asks the usual one for others.
registry() {
    local port tarball
    port=$(free_port)
    registry=http://127.0.0.1:$port
    cat >"$work/verdaccio.yaml" <<YAML
storage: $work/verdaccio
uplinks:
  npmjs:
    url: $(npm config get registry)
packages:
  '@dehydrator/*': { access: \$all, publish: \$all }
  dehydrator-queue: { access: \$all, publish: \$all }
  '**': { access: \$all, proxy: npmjs }
log: { type: stdout, level: warn }
YAML
    verdaccio
    target/verdaccio/node_modules/.bin/verdaccio --listen "$port" --config "$work/verdaccio.yaml" >"$work/verdaccio.log" 2>&1 &
    pids+=($!)
    answering "$registry/-/ping"
    for tarball in "$folder"/*.tgz; do
        npm publish --registry "$registry" "--//127.0.0.1:$port/:_authToken=any" --loglevel=error "$tarball"
    done
}

gems() {
    local place bin version
    version=$(version_of sidekiq)
    gem install --local --quiet --ignore-dependencies --no-document --install-dir "$work/gems" \
        "$folder/sidekiq-dehydrator-$version.gem"
    place=$work/gems/gems/sidekiq-dehydrator-$version
    cp -r integrations/sidekiq/tests "$place/"
    scripts/integrations-sidekiq.sh --fetch
    bin=$(echo "$work"/venv/lib/python3*/site-packages/dehydrator_queue_server/bin)
    # Its tests take what is beside them: here, what was installed.
    QUICK=1 DEHYDRATOR_SERVER=$bin/valkey-server DEHYDRATOR_MODULE=$bin/libdehydrator.so \
        SIDEKIQ_RUBY=$PWD/target/integrations-sidekiq/6.4/ruby \
        target/integrations-sidekiq/6.4/ruby -W0 -I "$place/lib" "$place/tests/test_jobs.rb"
}

scripts/release-packages-contents.py "$folder" "$(scripts/publisher.py get repository)"
step "pip"
python_packages
step "npm"
node_packages
step "gem"
gems
step "done"
