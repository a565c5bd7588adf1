# shellcheck shell=sh
# To be sourced: apt-get with folders of its own, which does not touch the machine's packages and lists and needs no
# root. With ARCHITECTURE set, packages are those of that one, of Debian's names.

# apt_folders <folder> <suite> [source]: creates the folders for that suite, from the mirror that this machine already
# uses; with `source`, for source packages instead of binary ones.
apt_folders() {
    mkdir -p "$1/sources" "$1/state/lists/partial" "$1/cache/archives/partial" || return
    : >"$1/status"
    apt_codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    apt_kind=deb
    [ "${3:-}" != source ] || apt_kind=deb-src
    apt_sources=/etc/apt/sources.list.d/debian.sources
    if [ -s "$apt_sources" ]; then
        sed "s/\\b$apt_codename\\b/$2/g; s/^Types:.*/Types: $apt_kind/" "$apt_sources" |
            apt_of_suite "$2" 'BEGIN { RS = ""; ORS = "\n\n" }' >"$1/sources/debian.sources"
    else
        sed -n "s/\\b$apt_codename\\b/$2/g; s/^deb\\( .*\\)/$apt_kind\\1/p" /etc/apt/sources.list |
            apt_of_suite "$2" '' >"$1/sources/debian.list"
    fi
}

# apt_of_suite <suite> <mode>: prints sources without what that suite lacks: sid has neither updates nor security
# updates.
apt_of_suite() {
    if [ "$1" = sid ]; then
        awk "$2"' { gsub(/ *sid-updates/, "") } !/sid-security/ && / sid/'
    else
        cat
    fi
}

# apt_in <folder> <apt-get arguments>
apt_in() {
    apt_dir=$1
    shift
    apt-get -qq ${ARCHITECTURE:+-o APT::Architecture="$ARCHITECTURE" -o APT::Architectures="$ARCHITECTURE"} \
        -o Dir::Etc::SourceList=/dev/null \
        -o Dir::Etc::SourceParts="$apt_dir/sources" \
        -o Dir::Etc::PreferencesParts=/dev/null \
        -o Dir::State="$apt_dir/state" \
        -o Dir::State::Status="$apt_dir/status" \
        -o Dir::Cache="$apt_dir/cache" \
        -o APT::Sandbox::User="$(id -un)" \
        -o Acquire::Languages=none -o Acquire::Retries=3 \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@" >&2
}

# apt_mirror: prints the mirror that this machine uses.
apt_mirror() {
    sed -n -E 's/^(URIs: *|deb +(\[[^]]*\] +)?)(https?:[^ ]*).*/\3/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1
}

# debian <folder> <suite> <package>...: unpacks these packages of a suite into the folder, whose path is relative.
debian() {
    folder=$PWD/$1
    work=$folder/.apt-$2
    suite=$2
    shift 2
    mkdir -p "$folder"
    apt_folders "$work" "$suite"
    mkdir "$work/debs"
    if ! apt_in "$work" update || ! (cd "$work/debs" && apt_in "$work" download "$@"); then
        return 1
    fi
    for package in "$work"/debs/*.deb; do
        dpkg -x "$package" "$folder"
    done
    rm -rf "$work"
}
