#!/bin/sh
# Print the packages of integrations/ with their versions, and the version of the module that each needs. Fail if the manifest of one
# and the top of its CHANGELOG.md differ, if that does not say what it needs, or if a package that holds the module has another version
# than it.
set -eu
cd "$(dirname "$0")/../integrations"

module=$(sed -n 's/^version = "\(.*\)"/\1/p' ../Cargo.toml | head -n 1)
failed=0
fail() {
    echo "package-versions.sh: integrations/$package $*" >&2
    failed=1
}

for package in */; do
    package=${package%/}
    manifest=$(ls "$package"/pyproject.toml "$package"/package.json "$package"/composer.json "$package"/*.gemspec 2>/dev/null || :)
    # A Go module has its version in its tag alone.
    [ -n "$manifest" ] || continue
    version=$(sed -n 's/^ *\("version": \|version = \|gem\.version = \)"\([0-9.]*\)".*/\2/p' "$manifest" | head -n 1)
    changelog=$package/CHANGELOG.md
    [ -e "$changelog" ] || { fail "has no CHANGELOG.md" && continue; }
    top=$(sed -n 's/^## \([0-9.]*\).*/\1/p' "$changelog" | head -n 1)
    needed=$(sed -n 's/.*[Nn]eeds version \([0-9.]*\) or later of the module.*/\1/p' "$changelog" | head -n 1)
    [ "$version" = "$top" ] || fail "is of version '$version', and its CHANGELOG.md begins with '$top'"
    case $package in
        *-server)
            [ "$version" = "$module" ] || fail "holds the module $module, and is of version $version"
            needed=$version
            ;;
    esac
    [ -n "$needed" ] || fail "does not say in CHANGELOG.md which version of the module it needs"
    # What it says of itself and of the module when it runs.
    # shellcheck disable=SC2013  # they are words
    for said in $(sed -n 's/^\(__version__\|NEEDED\) = "\(.*\)"/\1=\2/p' "$package"/src/*/__init__.py "$package"/src/*/errors.py 2>/dev/null); do
        case $said in
            "__version__=$version" | "NEEDED=$needed") ;;
            *) fail "says $said when it runs" ;;
        esac
    done
    echo "$package $version, module $needed"
done
exit $failed
