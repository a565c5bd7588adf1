#!/usr/bin/env bash
# Run tests on a server whose memory is aligned to 8 bytes: a server that cannot ask the C library for the size of an
# allocation, as with musl. It is built here, once: see scripts/source.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

DEHYDRATOR_SERVER=$(built_server unaligned redis bookworm 7.0 REDIS_CFLAGS=-DNO_MALLOC_USABLE_SIZE)
export DEHYDRATOR_SERVER
# Tests of memory expect the sizes of the usual allocators, and tests of time are too strict for this one.
cargo test --quiet --locked --test server -- aligned:: session:: commands:: fenced:: persistence:: small:: range:: \
    --skip take_no_more_than_what_they_replace --skip a_hundred_of_a_million_cost
