#!/usr/bin/env bash
# Run tests on a server whose memory is aligned to 8 bytes: one that cannot ask the C library for the size of an allocation,
# as where that library is musl. It is built here, once: see scripts/source.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

DEHYDRATOR_SERVER=$(built_server unaligned redis bookworm 7.0 REDIS_CFLAGS=-DNO_MALLOC_USABLE_SIZE)
export DEHYDRATOR_SERVER
# What measures memory knows the sizes of the usual allocators; what measures time has no patience with this one.
cargo test --quiet --locked --test server -- aligned:: session:: commands:: fenced:: persistence:: small:: range:: \
    --skip take_no_more_than_what_they_replace --skip a_hundred_of_a_million_cost
