#!/usr/bin/env bash
# Make the packages of the module, and of the live view, that `make package` has built, in target/package: a .deb, with
# the line tables in another, a tarball, and the sums of all three.
#
# Plain dpkg-deb: there is one file to install, and nothing to be configured; dist/prerm looks before it is removed. nfpm would
# save some twenty lines, and a release's .rpm would not say which C library it needs: rpmbuild finds that in the module.
#
#   scripts/package.sh --release <folder>    packs what scripts/cross.sh has built instead, into that folder: for
#                                           scripts/release.sh, with an .rpm too
#
#   DEBFULLNAME=, DEBEMAIL=   whom the packages name as their maintainer, as for Debian's own tools, in the place of whom
#                             dist/publisher.toml names
set -euo pipefail
cd "$(dirname "$0")/.."

module=target/release/libdehydrator.so
top=target/top/release/dehydrator-top
out=target/package
if [ "${1:-}" = --release ]; then
    module=target/cross/x86_64-unknown-linux-gnu/libdehydrator.so
    top=target/cross/x86_64-unknown-linux-musl/dehydrator-top
    out=$2
fi
version=$(scripts/version.sh)
maintainer="${DEBFULLNAME:-$(scripts/publisher.py get name)} <${DEBEMAIL:-$(scripts/publisher.py get email)}>"

# The same commit gives the same files.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
umask 022

for file in "$module" "$top"; do
    if [ ! -e "$file" ]; then
        echo "There is no $file yet: run \`make package\`." >&2
        exit 1
    fi
done
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

scripts/release-notes.sh >"$out/RELEASE-NOTES.md"
scripts/third-party.sh >"$work/THIRD-PARTY"

# with_docs <folder>: what the links of the pages lead to, from there.
with_docs() {
    local file
    install -D -m 644 -t "$1/docs" docs/*.md docs/*.png
    install -D -m 644 -t "$1/docs/charts" docs/charts/*.svg
    install -D -m 644 -t "$1/docs/figures" docs/figures/*.csv
    install -D -m 644 -t "$1/docs/pictures" docs/pictures/*.svg
    install -D -m 644 -t "$1/grafana" grafana/*
    install -D -m 644 -t "$1/examples" examples/*.* tests/data/rede-0.5-future.rdb
    install -D -m 644 -t "$1/examples/workers" examples/workers/*.*
    for file in integrations/*/README.md integrations/protocol/*.* integrations/*/examples/*.* \
        integrations/*/tests/upstream/exceptions*.txt integrations/patches/*; do
        install -D -m 644 "$file" "$1/$file"
    done
    install -D -m 644 -t "$1/.github" .github/*.md
    install -m 644 CONTRIBUTING.md "$1/"
}

# tarball <module> <live view> <machine> <prefix of its binutils>: with the module's line tables, for whoever unpacks it
# by hand.
tarball() {
    local module=$1 top=$2 tools=$4 name
    name=dehydrator-$version-linux-$3
    mkdir "$work/$name"
    install -m 755 "$module" "$top" "$work/$name/"
    "${tools}strip" --remove-section=.comment "$work/$name/dehydrator-top"
    install -m 644 redis.conf README.md LICENSE CHANGELOG.md "$out/RELEASE-NOTES.md" "$work/THIRD-PARTY" \
        "$work/$name/"
    with_docs "$work/$name"
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --use-compress-program='gzip -n' -cf "$out/$name.tar.gz" "$name"
}

# control <package> <size in kB> <more fields>: its description, which ends with the fields given.
control() {
    cat <<TEXT
Package: $1
Source: dehydrator
Version: $version-1
Architecture: $architecture
Maintainer: $maintainer
Homepage: $(scripts/publisher.py get homepage)
Installed-Size: $2
$3
TEXT
}

# pack <package> <fields>: puts what is below $work/<package> into a .deb.
pack() {
    local root=$work/$1
    mkdir -p "$root/DEBIAN"
    (cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) \
        >"$root/DEBIAN/md5sums"
    control "$1" "$(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f 1)" "$2" \
        >"$root/DEBIAN/control"
    find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz -b "$root" "$out/${1}_$version-1_$architecture.deb" >/dev/null
}

# depends <program>...: which C library they need.
depends() {
    local programs
    mapfile -t programs < <(realpath "$@")
    # dpkg-shlibdeps wants to see a source package.
    mkdir -p "$work/source/debian"
    printf 'Source: dehydrator\n\nPackage: dehydrator\nArchitecture: any\n' >"$work/source/debian/control"
    (cd "$work/source" && dpkg-shlibdeps -O --ignore-missing-info "${programs[@]}" 2>"$work/warnings") || {
        cat "$work/warnings" >&2
        return 1
    }
}

# rpm <machine>: an .rpm of what `debs` has put below $work/dehydrator.
rpm() {
    local root=$work/rpm modules=usr/lib64/redis/modules
    rm -rf "$root"
    mkdir -p "$root/usr/lib64/valkey/modules" "$root/usr/share/licenses/dehydrator"
    cp -a "$work/dehydrator/usr/"{bin,share} "$root/usr/"
    install -D -m 755 "$work/dehydrator/usr/lib/redis/modules/libdehydrator.so" "$root/$modules/libdehydrator.so"
    ln -s ../../redis/modules/libdehydrator.so "$root/usr/lib64/valkey/modules/"
    sed -i "s,/usr/lib/redis/modules,/$modules," "$root/usr/share/dehydrator/dehydrator.conf"
    mv "$root/usr/share/doc/dehydrator/copyright" "$root/usr/share/licenses/dehydrator/LICENSE"
    rm "$root/usr/share/doc/dehydrator/"{LICENSE,README.Debian,changelog.gz,changelog.Debian.gz}
    install -m 644 LICENSE "$root/usr/share/doc/dehydrator/"
    find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    rpmbuild --quiet -bb --target "$1-linux" --define "_topdir $work/rpmbuild" --define "_rpmdir $out" \
        --define '_rpmfilename %{name}-%{version}-%{release}.%{arch}.rpm' --define "staged $root" \
        --define "the_version $version" --define "the_publisher $maintainer" \
        --define "the_homepage $(scripts/publisher.py get homepage)" dist/dehydrator.spec
}

# debs <module> <live view> <architecture> <depends> <prefix of its binutils>: the .deb, and that of its line tables, by which
# gdb and perf show where in the sources something is.
debs() {
    local module=$1 top=$2 architecture=$3 depends=$4 tools=$5 root doc installed id symbols
    root=$work/dehydrator
    doc=$root/usr/share/doc/dehydrator
    # Where Debian's own package of a module puts it. The services of redis-server and of valkey-server may
    # execute nothing outside /usr/lib, and the servers refuse a module that nobody may execute.
    installed=$root/usr/lib/redis/modules/libdehydrator.so
    install -D -m 755 "$module" "$installed"
    "${tools}strip" --strip-debug --strip-unneeded --remove-section=.comment "$installed"
    install -D -m 755 "$top" "$root/usr/bin/dehydrator-top"
    "${tools}strip" --remove-section=.comment "$root/usr/bin/dehydrator-top"
    install -D -m 644 dist/dehydrator.conf "$root/usr/share/dehydrator/dehydrator.conf"
    install -D -m 755 dist/enable "$root/usr/share/dehydrator/enable"
    install -D -m 755 dist/prerm "$root/DEBIAN/prerm"
    install -D -m 644 dist/README.Debian "$doc/README.Debian"
    install -m 644 README.md "$doc/"
    with_docs "$doc"
    install -m 644 CHANGELOG.md redis.conf "$doc/"
    ln -s copyright "$doc/LICENSE"
    gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
    {
        echo "dehydrator ($version-1) unstable; urgency=medium"
        echo
        echo "  * What is new is in changelog.gz."
        echo
        echo " -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
    } | gzip -9n >"$doc/changelog.Debian.gz"
    cat LICENSE - "$work/THIRD-PARTY" >"$doc/copyright" <<'TEXT'

-----------------------------------------------------------------------------------------------------

On Debian the text of Apache-2.0 is in /usr/share/common-licenses/Apache-2.0.

TEXT
    chmod 644 "$doc"/*.gz "$doc/copyright"

    pack dehydrator "Depends: ${depends#shlibs:Depends=}
Suggests: redis-server | valkey-server
Section: database
Priority: optional
Description: data type for Redis and Valkey that gives elements back when due
 A module for redis-server and valkey-server. It adds a type of key that holds
 elements back until their time has come: delayed jobs, retries, timeouts. They
 can be cancelled by their ids, are given out in the order of their deadlines,
 by leases if wished, and survive restarts and failovers.
 .
 The server must be told to load it: see README.Debian. The program
 dehydrator-top shows in a terminal what a server holds."

    id=$("${tools}readelf" -n "$module" | sed -n 's/.*Build ID: //p')
    if [ -n "$id" ]; then
        symbols=$work/dehydrator-dbgsym/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
        mkdir -p "${symbols%/*}"
        "${tools}objcopy" --only-keep-debug --compress-debug-sections "$module" "$symbols"
        chmod 644 "$symbols"
        install -D -m 644 LICENSE "$work/dehydrator-dbgsym/usr/share/doc/dehydrator-dbgsym/copyright"
        install -m 644 "$doc/changelog.Debian.gz" "$work/dehydrator-dbgsym/usr/share/doc/dehydrator-dbgsym/"
        pack dehydrator-dbgsym "Depends: dehydrator (= $version-1)
Section: debug
Priority: optional
Description: debug symbols for dehydrator"
    fi
}

# --- a release ------------------------------------------------------------------------------------------
if [ "${1:-}" = --release ]; then
    for machine in x86_64 aarch64; do
        tools=
        architecture=amd64
        [ $machine = x86_64 ] || tools=aarch64-linux-gnu- architecture=arm64
        built=target/cross/$machine-unknown-linux
        top=$built-musl/dehydrator-top
        tarball $built-gnu/libdehydrator.so "$top" $machine "$tools"
        tarball $built-musl/libdehydrator.so "$top" $machine-musl "$tools"
        rm -rf "$work/dehydrator" "$work/dehydrator-dbgsym"
        # scripts/cross.sh links with the oldest C library.
        debs $built-gnu/libdehydrator.so "$top" $architecture 'libc6 (>= 2.17)' "$tools"
        rpm $machine
    done
    exit
fi

# --- for this machine ----------------------------------------------------------------------------------
needs=$(depends "$module" "$top")
tarball "$module" "$top" "$(uname -m)" ''
debs "$module" "$top" "$(dpkg --print-architecture)" "$needs" ''
(cd "$out" && sha256sum -- *.deb *.tar.gz >SHA256SUMS && ls -l)
