#!/bin/sh
# shellcheck disable=SC1091,SC2086  # lists of packages are meant to be split
#
# Run the tests of integrations/sidekiq on Sidekiq 6.4, 7.3 and 8.1, of Debian bookworm, trixie and sid.
#
# usage: integrations-sidekiq.sh folder-of-servers [--quick | --bench]
#        integrations-sidekiq.sh --fetch
#
#     --quick     the tests, with 500 jobs instead of 20,000, on Sidekiq 6.4 and Redis 7.0, in less than a minute
#     --fetch     no tests: only Sidekiq 6.4, with a program that runs it, target/integrations-sidekiq/6.4/ruby
#     --bench     no tests: compare Sidekiq 8.1 with its own poller, into target/bench-sidekiq/results.json
#
# All is unpacked into target/integrations-sidekiq: nothing of it is installed. Sidekiq 8 needs a newer Ruby than bookworm's, and
# is run by sid's. Debian leaves Sidekiq's own tests out of its sources. With SIDEKIQ_SOURCES, a folder that holds the checkouts
# v6.4.1, v7.3.2 or v8.1.7 of its repository, theirs are run too. With UNIQUE_JOBS_SOURCES, a checkout of sidekiq-unique-jobs,
# which Debian lacks, test_unique_jobs.rb runs on it, from Sidekiq 7 on, and otherwise on a stand-in.
set -eu
cd "$(dirname "$0")/.."
. scripts/apt.sh

scripts/setup.sh sidekiq
place=target/integrations-sidekiq
gems='ruby-sidekiq ruby-connection-pool ruby-rack ruby-tzinfo ruby-concurrent'
active='ruby-activejob ruby-activesupport ruby-globalid ruby-i18n'
later="$gems $active ruby-redis-client ruby-rack-session"

# version <number> <suite> <package>...: what it needs, unpacked, and a program `ruby` that finds it.
version() {
    number=$1
    whole=$PWD/$place/$number
    shift
    [ ! -x "$whole/ruby" ] || [ "$(cat "$whole/packages" 2>/dev/null)" != "$*" ] || return 0
    rm -rf "$whole"
    debian "$place/$number" "$@"
    echo "$*" >"$whole/packages"
    {
        echo '#!/bin/sh'
        if [ -e "$whole/usr/bin/ruby3.3" ]; then
            lib=$whole/usr/lib
            loader=$(find "$whole" -name 'ld-linux-*.so.*' ! -type d | head -n 1)
            machine=$(basename "$(dirname "$(find "$lib" -name 'libruby-3.3.so.3.3')")")
            echo "export RUBYLIB='$lib/ruby/3.3.0:$lib/$machine/ruby/3.3.0:$lib/ruby/vendor_ruby'"
            echo "export GEM_PATH='$whole/usr/share/rubygems-integration/all'"
            printf "exec '%s' --library-path '%s' --argv0 ruby '%s'" "$loader" "$(dirname "$loader"):$lib/$machine" \
                "$whole/usr/bin/ruby3.3"
        else
            printf "exec ruby -I '%s'" "$whole/usr/lib/ruby/vendor_ruby"
        fi
        for gem in "$whole"/usr/share/rubygems-integration/all/gems/*/lib; do
            printf " -I '%s'" "$gem"
            [ ! -d "$gem/concurrent-ruby" ] || printf " -I '%s'" "$gem/concurrent-ruby"
        done
        printf ' "$@"\n'
    } >"$whole/ruby.new"
    chmod +x "$whole/ruby.new"
    mv "$whole/ruby.new" "$whole/ruby"
}

version 6.4 bookworm $gems ruby-redis $active
[ "$1" != --fetch ] || exit 0
[ "${2-}" = --quick ] || {
    version 7.3 trixie $later
    version 8.1 sid $later ruby-minitest ruby3.3 libruby3.3 libc6 libcrypt1 libffi8 libgcc-s1 libgmp10 \
        libssl3t64 libyaml-0-2 zlib1g libzstd1
}

names='redis-7.0 valkey-8'
versions='6.4 7.3 8.1'
files='package protocol jobs page monitors unique_jobs takeover killed schedules reliable'
case ${2-} in
    --quick)
        names=redis-7.0
        versions=6.4
        export QUICK=1
        ;;
    --bench)
        names=redis-7.0
        versions=8.1
        files=
        mkdir -p target/bench-sidekiq
        ;;
esac
scripts/servers.sh "$1" $names
servers=$(cd "$1" && pwd)
export DEHYDRATOR_MODULE="${DEHYDRATOR_MODULE-$PWD/target/release/libdehydrator.so}"

for name in $names; do
    export DEHYDRATOR_SERVER="$servers/$name"
    for number in $versions; do
        export SIDEKIQ_RUBY="$PWD/$place/$number/ruby"
        unique=
        [ "$number" = 6.4 ] || unique=${UNIQUE_JOBS_SOURCES:+-I $UNIQUE_JOBS_SOURCES/lib}
        for file in $files; do
            echo "$name, Sidekiq $number: $file"
            "$SIDEKIQ_RUBY" -W0 $unique -I integrations/sidekiq/lib "integrations/sidekiq/tests/test_$file.rb"
        done
        [ "${2-}" != --bench ] ||
            "$SIDEKIQ_RUBY" -W0 -I integrations/sidekiq/lib integrations/sidekiq/tests/bench.rb target/bench-sidekiq/results.json
        sources=$(find "${SIDEKIQ_SOURCES:-/nowhere}" -maxdepth 1 -name "v$number.*" 2>/dev/null | head -n 1)
        if [ -z "$files" ]; then
            :
        elif [ -z "$sources" ]; then
            echo "left out: Sidekiq's own tests (SIDEKIQ_SOURCES)"
        elif ! "$SIDEKIQ_RUBY" -e 'require "logger"; require "active_job"; require "rack/test"' 2>/dev/null; then
            echo "left out: Sidekiq's own tests, for which there is no ruby-activejob or ruby-rack-test of this Ruby"
        else
            integrations/sidekiq/tests/upstream/run.sh "$sources"
            RELIABLE=1 integrations/sidekiq/tests/upstream/run.sh "$sources"
        fi
    done
done
