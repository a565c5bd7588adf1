#!/bin/sh
# shellcheck disable=SC1091
#
# Run the tests of integrations/laravel and integrations/symfony, on Debian's Laravel and Messenger, and Laravel's own of
# its queue in Redis, from Debian's sources.
#
# usage: integrations-php.sh folder-of-servers [--quick]
#
#     --quick     on Redis 7.0 alone, without the campaign that compares with Laravel's own driver, and without Laravel's tests
set -eu
cd "$(dirname "$0")/.."
. scripts/apt.sh

scripts/setup.sh languages laravel symfony
names='redis-7.0 valkey-8'
groups=
if [ "${2-}" = --quick ]; then
    names=redis-7.0
else
    groups='--group default,slow'
    sources=target/integrations-laravel
    if [ ! -e "$sources/laravel" ]; then
        rm -rf "$sources"
        apt_folders "$PWD/$sources" "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" source
        apt_in "$PWD/$sources" update
        (cd "$sources" && apt_in "$PWD" source --download-only php-laravel-framework)
        mkdir "$sources/new"
        tar -xf "$sources"/php-laravel-framework_*.orig.tar.* -C "$sources/new" --strip-components 1
        mv "$sources/new" "$sources/laravel"
    fi
fi
# shellcheck disable=SC2086  # lists are meant to be split
scripts/servers.sh "$1" $names
servers=$(cd "$1" && pwd)
export DEHYDRATOR_MODULE="${DEHYDRATOR_MODULE-$PWD/target/release/libdehydrator.so}"
for name in $names; do
    export DEHYDRATOR_SERVER="$servers/$name"
    # shellcheck disable=SC2086
    phpunit --configuration integrations/laravel/phpunit.xml $groups
    phpunit --configuration integrations/symfony/phpunit.xml
    [ -z "$groups" ] || integrations/laravel/tests/upstream/run.sh "$sources/laravel"
done
