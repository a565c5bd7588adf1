#!/bin/sh
# Print what CHANGELOG.md says of its topmost version, without the heading.
set -eu
cd "$(dirname "$0")/.."

# The blank lines at both ends are dropped: by the shell at the end, by sed at the beginning.
notes=$(awk '/^## / { if (seen++) exit; next } seen' CHANGELOG.md)
if [ -z "$notes" ]; then
    echo "release-notes.sh: CHANGELOG.md has no version" >&2
    exit 1
fi
printf '%s\n' "$notes" | sed '/./,$!d'
