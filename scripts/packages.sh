# shellcheck shell=sh
# To be sourced in the root of the repository: installs the package for Python into `venv`, and builds that for Node, for
# a bench of both. Puts Node into PATH.

venv=target/integrations/venv
[ -e "$venv/bin/python" ] || python3 -m venv "$venv"
pip="$venv/bin/pip --quiet --disable-pip-version-check"
$pip install -r integrations/python/requirements.txt -r integrations/bench/requirements.txt
$pip install --no-deps --no-build-isolation --editable integrations/python
scripts/integrations-node.sh --fetch
PATH=$(scripts/node.sh):$PATH
npm run --silent --prefix integrations/node build
