#!/bin/sh
# Print the topmost version's notes from CHANGELOG.md, without the heading.
set -eu
cd "$(dirname "$0")/.."

# Drops blank lines at both ends: the shell at the end, sed at the beginning.
notes=$(awk '/^## / { if (seen++) exit; next } seen' CHANGELOG.md)
if [ -z "$notes" ]; then
    echo "release-notes.sh: CHANGELOG.md has no version" >&2
    exit 1
fi
printf '%s\n' "$notes" | sed '/./,$!d'
