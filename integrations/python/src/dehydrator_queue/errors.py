"""The errors of this package, and errors that a worker's function can raise."""

from __future__ import annotations

from dehydrator_queue.options import Duration, in_seconds


class DehydratorError(Exception):
    """The base class of all errors of this package."""


class QueueFull(DehydratorError):
    """There is no room: `limit(length=…)`, or the server's own limit, is reached."""


class Exists(DehydratorError):
    """The id is in the queue, or remembered."""


class NotFound(DehydratorError):
    """There is no such id."""


class TooLate(DehydratorError):
    """The moment is later than the operator of the server allows."""


class ModuleMissing(DehydratorError):
    """The server has not loaded the module."""

    def __init__(self) -> None:
        super().__init__(
            "The server has not loaded the module dehydrator. Start it with `--loadmodule /path/to/libdehydrator.so`, "
            "or send `MODULE LOAD`. docs/operations.md, section Install, says how to get it."
        )


#: The version of the module that this package needs, as INFO says it, which not every user may read.
NEEDED = "0.1.0"


class ModuleTooOld(DehydratorError):
    """The server's module lacks a command that this package needs."""

    def __init__(self, command: str, version: str = "") -> None:
        super().__init__(
            f"The server's module dehydrator{' ' * bool(version)}{version} has no command {command}: this "
            f"package needs version {NEEDED} or later. docs/operations.md, section Upgrade, says how to replace it."
        )


class TookTooLong(DehydratorError):
    """The work did not end within its timeout: the reason of its retry, or of its dead letter."""


class Reject(Exception):
    """Raised by a worker's function: the job becomes a dead letter now, with this reason."""


class Retry(Exception):
    """Raised by a worker's function: the job is delivered again after `delay`, if it has attempts left."""

    def __init__(self, delay: Duration, reason: str = "the work asked to be tried again") -> None:
        super().__init__(reason)
        self.delay = in_seconds("delay", delay)


def reason_of(error: BaseException) -> str:
    """Returns the reason of a failure, in one line."""
    try:
        # A lone surrogate is in no log.
        text = str(error).encode(errors="backslashreplace").decode()
    except Exception as another:
        text = f"its text raises {type(another).__name__}"
    if isinstance(error, (Reject, Retry)):
        return text or "rejected"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
