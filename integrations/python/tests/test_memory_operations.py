"""The server in memory replies as the real one, whose clock the test sets as well."""

from __future__ import annotations

import os
import random
from pathlib import Path

from memory_operations import SHARES, Operations
from servers import StillServer

#: A million were compared by hand: DEHYDRATOR_OPERATIONS=1000000.
OPERATIONS = int(os.environ.get("DEHYDRATOR_OPERATIONS", "10000"))
SEED = int(os.environ.get("DEHYDRATOR_SEED", random.SystemRandom().randrange(2**63)))


def test_the_replies_of_random_operations_are_those_of_the_server(tmp_path: Path) -> None:
    print(f"DEHYDRATOR_SEED={SEED}")
    server = StillServer(tmp_path, 2_000_000_000_000)
    try:
        operations = Operations(server, SEED)
        operations.run(OPERATIONS)
    finally:
        server.close()
    print(operations.counts)
    if OPERATIONS >= 10_000:
        assert not {*SHARES, "expired", "ERR", "EXISTS", "FULL", "NORULE", "NOSUCHID"} - set(operations.counts)
