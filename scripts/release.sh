#!/usr/bin/env bash
# Make all that a release publishes, in one folder. The same commit and key give the same files.
#
#   KEY=<fingerprint> scripts/release.sh [folder]       (default: target/release-files)
#
#       KEY         the OpenPGP key that signs, of the keyring that GNUPGHOME names; older than the commit. For trials:
#                   `throwaway`, a key that is made here
#       PUBLISHER   a file in the place of dist/publisher.toml
#       BASES       registry (default: the official images) or stand-ins: see scripts/release-images.sh
#
# From a clean clone of a tag: `v` and the version of Cargo.toml. As root: see scripts/release-images.sh. The compiler is this
# machine's Rust.
#
#   dehydrator-VERSION-linux-*.tar.gz   the module and the live view, for glibc 2.17 and for musl
#   apt, yum                            repositories to put behind any web server, with the .deb and .rpm
#   images                              archives of OCI images
#   packages                            for PyPI, npm and RubyGems: see scripts/release-packages.sh
#   *.cdx.json                          the libraries in module and live view (CycloneDX)
#   provenance.intoto.json              what was built from what
#   dehydrator.asc                      the public key
#   SHA256SUMS, SHA256SUMS.asc          sums of every file, and their signature
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "release.sh: $*" >&2
    exit 1
}

mkdir -p "${1:-target/release-files}"
out=$(cd "${1:-target/release-files}" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
scripts/publisher.py filled
[ -z "$(git status --porcelain)" ] || fail "there are changes that were not committed"
[ "$(scripts/version.sh)" = "$version" ] || fail "the commit has no tag v$version"
scripts/setup.sh package release
: "${KEY:?name the OpenPGP key that signs: KEY=<fingerprint>}"
if [ "$KEY" = throwaway ]; then
    export GNUPGHOME=$PWD/target/throwaway-key
    KEY='Throwaway key <throwaway@dehydrator.invalid>'
    [ -d "$GNUPGHOME" ] || {
        mkdir -m 700 "$GNUPGHOME"
        gpg --batch --quiet --faked-system-time 20200101T000000 --passphrase '' --quick-generate-key "$KEY" ed25519 sign never
    }
fi
gpg --batch --list-secret-keys "$KEY" >/dev/null 2>&1 || fail "gpg has no secret key $KEY"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC0
umask 022
rm -rf "${out:?}"/*

# signed <gpg's words>...: with the time of the commit, so that the signature is the same each time.
signed() {
    gpg --batch --yes --faked-system-time "$SOURCE_DATE_EPOCH!" --local-user "$KEY" --digest-algo SHA512 "$@"
}

echo "--- what is built ($(date +%T))"
scripts/cross.sh
cargo fetch --quiet --locked
cargo fetch --quiet --locked --manifest-path console/Cargo.toml
rust=$(rustc --version)
python=$(scripts/release-tools.sh)/python
"$python" scripts/sbom.py Cargo.toml libdehydrator.so "$version" "$rust" >"$out/libdehydrator.so.cdx.json"
"$python" scripts/sbom.py console/Cargo.toml dehydrator-top "$version" "$rust" >"$out/dehydrator-top.cdx.json"

echo "--- tarballs, .deb, .rpm ($(date +%T))"
scripts/package.sh --release "$out"
signed --armor --export-options export-minimal --output "$out/dehydrator.asc" --export "$KEY"

echo "--- repositories ($(date +%T))"
mkdir -p "$out/apt/pool" "$out/yum"
mv "$out"/*.deb "$out/apt/pool/"
mv "$out"/*.rpm "$out/yum/"
(
    cd "$out/apt"
    for architecture in amd64 arm64; do
        place=dists/stable/main/binary-$architecture
        mkdir -p "$place"
        apt-ftparchive --arch "$architecture" packages pool >"$place/Packages"
        gzip -9nk "$place/Packages"
    done
    for field in Origin=Dehydrator Label=Dehydrator Suite=stable Codename=stable Components=main \
        'Architectures=amd64 arm64' "Date=$(date -u -R -d "@$SOURCE_DATE_EPOCH")"; do
        echo "APT::FTPArchive::Release::${field%%=*} \"${field#*=}\";"
    done >"$out/fields"
    apt-ftparchive -c "$out/fields" release dists/stable >"$out/Release"
    mv "$out/Release" dists/stable/
    rm "$out/fields"
    signed --clearsign --output dists/stable/InRelease dists/stable/Release
    signed --armor --detach-sign --output dists/stable/Release.gpg dists/stable/Release
)
# The lists tell the times of the files.
touch -d "@$SOURCE_DATE_EPOCH" "$out/yum/"*.rpm
createrepo_c --quiet --revision 1 --set-timestamp-to-revision --no-database "$out/yum"
signed --armor --detach-sign --output "$out/yum/repodata/repomd.xml.asc" "$out/yum/repodata/repomd.xml"

echo "--- images ($(date +%T))"
scripts/release-images.sh "$out/images" "${BASES:-registry}"

echo "--- packages for PyPI, npm and RubyGems ($(date +%T))"
scripts/release-packages.sh "$out/packages" target/cross

# sums: one line for each file.
sums() { (cd "$out" && find . -type f ! -name 'SHA256SUMS*' -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum); }

# The statement that SLSA describes. Its subjects are all other files.
sums | jq -n -R --arg commit "$(git rev-parse HEAD)" --arg tag "v$version" --arg repository "$(scripts/publisher.py get repository)" \
    --arg rust "$rust" --arg zig "$("$(scripts/zig.sh)/zig" version)" '{
    _type: "https://in-toto.io/Statement/v1",
    subject: [inputs | capture("^(?<sum>\\w+)  (?<name>.*)$") | {name, digest: {sha256: .sum}}],
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
        buildDefinition: {
            buildType: ($repository + "/blob/" + $tag + "/scripts/release.sh"),
            externalParameters: {tag: $tag},
            internalParameters: {rust: $rust, zig: $zig},
            resolvedDependencies: [{uri: ("git+" + $repository + "@refs/tags/" + $tag), digest: {gitCommit: $commit}}]
        },
        runDetails: {builder: {id: ($repository + "/blob/" + $tag + "/scripts/release.sh")}}
    }
}' >"$out/provenance.intoto.json"
sums >"$out/SHA256SUMS"
signed --armor --detach-sign --output "$out/SHA256SUMS.asc" "$out/SHA256SUMS"
echo "--- done ($(date +%T)): $(wc -l <"$out/SHA256SUMS") files, $(du -sh "$out" | cut -f 1), in $out"
