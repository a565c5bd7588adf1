#!/bin/sh
# Download the client libraries of docs/clients.md, in the versions that tests/clients/ pins, and build the compiled
# probes, into target/clients. Libraries that the examples use are shared with them.
set -eu
cd "$(dirname "$0")/.."
. scripts/apt.sh

scripts/examples.sh
scripts/go.sh
place=$PWD/target/clients
mkdir -p "$place/bin"

# Each folder keeps a copy of the list that it was made from.
python=$place/python
if ! cmp -s tests/clients/probes/python.txt "$python/made-from"; then
    rm -rf "$python"
    python3 -m venv "$python/venv"
    # Several versions of one library, each in a folder of its own.
    while read -r name requirement; do
        "$python/venv/bin/pip" install --quiet --disable-pip-version-check --target "$python/$name" "$requirement"
    done <tests/clients/probes/python.txt
    cp tests/clients/probes/python.txt "$python/made-from"
fi
modules=tests/clients/probes/node_modules
if ! cmp -s tests/clients/probes/package-lock.json "$modules/.made-from"; then
    npm ci --prefix tests/clients/probes --omit=dev --no-audit --no-fund --loglevel=error
    cp tests/clients/probes/package-lock.json "$modules/.made-from"
fi

# phpredis 6, with its PHP, which runs with its own loader and C library.
php_of_trixie() {
    rm -rf "$place/php"
    debian target/clients/php trixie php8.4-cli php8.4-redis php8.4-igbinary libc6 libgcc-s1 libstdc++6 zlib1g \
        libxml2 libsodium23 libargon2-1 libpcre2-8-0 libssl3t64 libedit2 libzstd1 liblz4-1 libcrypt1 liblzma5 \
        libbsd0 libmd0 libtinfo6 libicu76 libcap2
    loader=$(find "$place/php" -name 'ld-linux-*.so.*' ! -type d | head -n 1)
    extensions=$(dirname "$(find "$place/php" -name redis.so)")
    cat >"$place/bin/php-8" <<SH
#!/bin/sh
exec '$loader' --library-path '$(dirname "$loader")' '$place/php/usr/bin/php8.4' -n \\
    -d extension_dir='$extensions' -d extension=igbinary.so -d extension=redis.so "\$@"
SH
    chmod +x "$place/bin/php-8"
}
if ! cmp -s scripts/clients.sh "$place/php/made"; then
    php_of_trixie
    cp scripts/clients.sh "$place/php/made"
fi

CARGO_TARGET_DIR=$place cargo build --quiet --locked --manifest-path tests/clients/rust/Cargo.toml
for probe in redigo go_redis; do
    target/go/go build -o "$place/bin/$probe" "tests/clients/probes/$probe.go"
done
