#!/bin/sh
# Run the tests of integrations/laravel and integrations/symfony, on Debian's Laravel and Messenger.
#
# usage: integrations-php.sh folder-of-servers [--quick]
#
#     --quick     on Redis 7.0 alone, and without the campaign that compares with Laravel's own driver
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh languages laravel symfony
names='redis-7.0 valkey-8'
groups=
if [ "${2-}" = --quick ]; then
    names=redis-7.0
else
    groups='--group default,slow'
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
done
