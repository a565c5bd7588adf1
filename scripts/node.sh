#!/bin/sh
# Print the folder of a Node that the package for Node works with: 20 or later. Where the machine's is older, as Debian bookworm's
# is, npm's registry has the program.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh examples >&2
if node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
    dirname "$(command -v node)"
    exit
fi
case $(uname -m) in
    x86_64) machine=x64 ;;
    aarch64) machine=arm64 ;;
    *)
        echo "integrations/node needs Node 20 or later, as from https://nodejs.org; this is $(node --version)." >&2
        exit 1
        ;;
esac
program=target/node/node_modules/node-linux-$machine/bin
[ -x "$program/node" ] ||
    npm install --prefix target/node --no-save --no-audit --no-fund --loglevel=error "node-linux-$machine@20.20.2" >&2
echo "$PWD/$program"
