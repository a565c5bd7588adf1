#!/bin/sh
# Install what building, running and testing need and this machine lacks: a C compiler, libclang (for
# the bindings to the server's module API), redis-server and redis-cli. Says nothing when all is there.
#
# Where it may not install, it prints the one command that would, and fails.
#
#   scripts/setup.sh [extra...]
#       c++           a C++ compiler, which the fuzzer needs
#       asan          what builds a server, and valgrind
#       valkey        what builds a server with zig
#       arm64         what runs programs of arm64
#       package       what makes a .deb, and, for root, debootstrap, which tests it
#       release       what makes packages, repositories and images of a release
#       musl          what builds a server with musl
#       image         buildah, and debootstrap
#       field         the queues that are compared: beanstalkd, PostgreSQL, RabbitMQ
#       grafana       what reads the dashboard, for its test
#       python        Python's venv
#       examples      that and Node, which the examples need
#       languages     the other languages that the examples come in: Ruby, PHP, Perl, and their libraries
#       laravel       Laravel, and what tests its queues
#       browser       Node, and Chromium, which the page of dehydrator-top is tested with
#       sidekiq       Ruby, and what tests the gem for Sidekiq
#       symfony       Symfony's Messenger, and what tests its transports
#       scripts       shellcheck, the linter of scripts
#       java          a Java compiler
set -eu

# As in Cargo.toml.
rust=1.88

if ! command -v cargo >/dev/null; then
    echo "Rust is missing: see https://rustup.rs, then open a new shell." >&2
    exit 1
fi
have=$(cargo --version | cut -d ' ' -f 2)
if [ "$(printf '%s\n' "$rust" "$have" | sort -V | head -n 1)" != "$rust" ]; then
    echo "Rust $rust or later is needed, this is $have: \`rustup update\`, or see https://rustup.rs." >&2
    exit 1
fi

missing=
need() { missing="$missing $1"; }

# found <folder>... <name or path>: is there such a file below one of the folders?
found() { find "$@" -print 2>/dev/null | grep -q .; }

# Debian's python3 comes without what a venv is made with.
python() { python3 -c 'import ensurepip, venv' 2>/dev/null || need "python3 python3-venv"; }

command -v cc >/dev/null || need "gcc libc6-dev"
# The library, and the headers that come with it: either is of no use without the other.
if ! found /usr/lib /usr/local/lib "${LIBCLANG_PATH:-/usr/lib}" \
    \( -name 'libclang.so*' -o -name 'libclang-[0-9]*.so*' \) ||
    ! found /usr/lib /usr/local/lib "${LIBCLANG_PATH:-/usr/lib}/.." \
        -path '*clang/*/include/stddef.h'; then
    need libclang-dev
fi
for extra in "$@"; do
    case $extra in
        c++) command -v c++ >/dev/null || need g++ ;;
        asan)
            command -v make >/dev/null || need make
            command -v valgrind >/dev/null || need valgrind
            ;;
        valkey)
            command -v make >/dev/null || need make
            command -v xz >/dev/null || need xz-utils
            python
            ;;
        arm64) command -v qemu-aarch64-static >/dev/null || need qemu-user-static ;;
        package)
            command -v dpkg-shlibdeps >/dev/null || need dpkg-dev
            command -v python3 >/dev/null || need python3
            [ "$(id -u)" != 0 ] || command -v debootstrap >/dev/null || need debootstrap
            ;;
        release)
            command -v aarch64-linux-gnu-strip >/dev/null || need binutils-aarch64-linux-gnu
            command -v apt-ftparchive >/dev/null || need apt-utils
            command -v buildah >/dev/null || need buildah
            command -v createrepo_c >/dev/null || need createrepo-c
            command -v gpg >/dev/null || need gpg
            command -v jq >/dev/null || need jq
            command -v rpmbuild >/dev/null || need rpm
            python
            ;;
        musl) command -v musl-gcc >/dev/null || need musl-tools ;;
        image)
            command -v buildah >/dev/null || need buildah
            command -v debootstrap >/dev/null || need debootstrap
            ;;
        field)
            command -v beanstalkd >/dev/null || need beanstalkd
            found /usr/lib/postgresql -name initdb || need postgresql
            [ -e /usr/lib/rabbitmq/bin/rabbitmq-server ] || need rabbitmq-server
            ;;
        grafana)
            command -v jq >/dev/null || need jq
            command -v curl >/dev/null || need "curl ca-certificates"
            ;;
        python) python ;;
        examples)
            python
            command -v node >/dev/null || need nodejs
            command -v npm >/dev/null || need npm
            ;;
        browser)
            command -v node >/dev/null || need nodejs
            command -v npm >/dev/null || need npm
            command -v chromium >/dev/null || need chromium
            ;;
        languages)
            # What apt-get has of a library is of the same version as the language itself.
            ruby -e 'require "redis"' 2>/dev/null || need "ruby ruby-redis"
            [ "$(php -r 'echo class_exists("Redis");' 2>/dev/null)" = 1 ] || need "php-cli php-redis"
            php -r 'require "Predis/Autoloader.php";' >/dev/null 2>&1 || need php-predis
            perl -MRedis -e 1 2>/dev/null || need libredis-perl
            ;;
        laravel)
            [ "$(php -r 'echo (bool) stream_resolve_include_path("Illuminate/autoload.php");' 2>/dev/null)" = 1 ] ||
                need php-laravel-framework
            [ "$(php -r 'echo (bool) stream_resolve_include_path("Mockery/autoload.php");' 2>/dev/null)" = 1 ] ||
                need php-mockery
            [ "$(php -r 'echo extension_loaded("pdo_sqlite");' 2>/dev/null)" = 1 ] || need php-sqlite3
            command -v phpunit >/dev/null || need phpunit
            ;;
        sidekiq)
            ruby -e 'require "minitest"' 2>/dev/null || need "ruby ruby-minitest"
            [ -e /usr/share/zoneinfo/Europe/Berlin ] || need tzdata
            ;;
        symfony)
            [ "$(php -r 'echo (bool) stream_resolve_include_path("Symfony/Component/Messenger/autoload.php");' 2>/dev/null)" = 1 ] ||
                need "php-symfony-messenger php-symfony-event-dispatcher"
            command -v phpunit >/dev/null || need phpunit
            ;;
        scripts) command -v shellcheck >/dev/null || need shellcheck ;;
        java) command -v javac >/dev/null || need default-jdk-headless ;;
        *)
            echo "setup.sh: there is no extra called '$extra'" >&2
            exit 1
            ;;
    esac
done
# Whoever names programs of their own needs none from us.
command -v "${DEHYDRATOR_SERVER:-redis-server}" >/dev/null || need redis-server
command -v "${DEHYDRATOR_CLI:-redis-cli}" >/dev/null || need redis-tools

[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "Please install, by the names that your system has for them:$missing" >&2
    exit 1
fi
install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root=sudo
else
    echo "Please run, as root:  apt-get update && $install" >&2
    exit 1
fi

echo "Installing:$missing"
$as_root apt-get -q update
# shellcheck disable=SC2086  # the list is meant to be split
$as_root env DEBIAN_FRONTEND=noninteractive $install
