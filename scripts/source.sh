# shellcheck shell=bash
# To be sourced: builds servers with unusual options from Debian's source packages. Each is built once, into target/built;
# remove its folder there to rebuild it.
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

built=$PWD/target/built
# With a little optimization, more tests run in the same time.
optimization=1

# source_of <package> <suite> <version>: prints the path of its source archive. apt-get checks downloads against Debian's
# signatures.
source_of() {
    local package=$1 suite=$2 version=$3 fetched=$built/$1.new
    if ! compgen -G "$built/$package/${package}_$version.*.orig.tar.gz" >/dev/null; then
        echo "Fetching the source of $package $version." >&2
        rm -rf "$fetched" "${built:?}/$package"
        mkdir -p "$fetched"
        apt_folders "$fetched/apt" "$suite" source
        apt_in "$fetched/apt" update
        (cd "$fetched" && apt_in "$fetched/apt" source --download-only "$package")
        rm -rf "$fetched/apt"
        mv "$fetched" "$built/$package"
    fi
    compgen -G "$built/$package/${package}_$version.*.orig.tar.gz"
}

# built_server <name> <package> <suite> <version> <arguments of make>...: builds a server, unless it exists, and prints the
# path of its program.
built_server() {
    local name=$1 package=$2 suite=$3 version=$4 folder=$built/$1 archive
    shift 4
    mkdir -p "$built"
    (
        # One at a time.
        flock 9
        if [ ! -e "$folder/built" ]; then
            archive=$(source_of "$package" "$suite" "$version")
            echo "Building $package $version: $name." >&2
            rm -rf "$folder"
            mkdir -p "$folder"
            tar -xzf "$archive" -C "$folder" --strip-components=1
            if ! make -C "$folder/src" -j"$(nproc)" "$package-server" MALLOC=libc \
                OPTIMIZATION="-O$optimization" USE_SYSTEMD=no "$@" >"$folder/log" 2>&1; then
                tail -n 40 "$folder/log" >&2
                exit 1
            fi
            touch "$folder/built"
        fi
    ) 9>"$built/.lock" || return
    echo "$folder/src/$package-server"
}
