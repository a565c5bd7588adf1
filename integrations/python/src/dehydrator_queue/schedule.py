"""A schedule in the server: an element of three parts, and the two scripts that read and change it.

The parts, separated by newlines: the state, a line of JSON that changes with each occurrence; the plan, a line that
tells when it occurs; and the payload of its jobs. Nothing here knows how a plan is written, or connects to a server.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from dehydrator_queue.occurrences import Occurrences
from dehydrator_queue.verbs import Question, as_bytes

#: Returns the server's time and the element of a schedule.
LOOK = "return {redis.call('TIME'), redis.call('DEHYDRATOR.LOOK', KEYS[1], ARGV[1])}"

#: Stores a new element of a schedule if the old one is unchanged, and pushes jobs, all or none: NX would not refuse a
#: job of an earlier try that is done by now. With a token, the schedule is held, and given back if nothing is stored.
STORE = """
local name, token, before, after, deadline = unpack(ARGV, 1, 5)
local function release(ms)
    return token == '' or redis.call('DEHYDRATOR.RELEASE', KEYS[1], ms, token, name, 'UNCOUNTED')[1] == 1
end
if (redis.call('DEHYDRATOR.LOOK', KEYS[1], name) or '') ~= before then
    release(0)
    return {0}
end
local pushed, fits, at, refused = {}, 0, 6, nil
while ARGV[at] and not refused do
    local job = {unpack(ARGV, at + 1, at + ARGV[at])}
    local key = KEYS[fits + 2] or KEYS[2]
    local reply = redis.pcall('DEHYDRATOR.PUSH', key, unpack(job))
    refused = reply and reply.err
    if reply and not refused then pushed[#pushed + 1] = {key, job[3]} end
    if not refused then fits = fits + 1 end
    at = at + 1 + ARGV[at]
end
local function undo()
    for _, job in ipairs(pushed) do redis.call('DEHYDRATOR.REM', unpack(job)) end
end
if not refused then
    if not release(1000) then
        undo()
        return {0}
    end
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    repeat
        local moment = string.format('%.0f', deadline)
        local reply = redis.pcall('DEHYDRATOR.PUSH', KEYS[1], 0, after, name, 'REPLACE', 'AT', moment)
        if not reply.err then return {1} end
        refused, fits = reply.err, 0
        deadline = now + math.floor((deadline - now) / 2)
    until string.sub(refused, 1, 6) ~= 'LIMIT ' or deadline <= now
end
undo()
if token == '' then return redis.error_reply(refused) end
if fits == 0 then release(1000) end
return {-1, fits, refused}
"""

#: A worker looks at a schedule after this time at the latest, in milliseconds: `dehydrator.max-ttl` may refuse more.
LONGEST_WAIT = 30 * 86_400_000

#: The moment after which nothing occurs: the beginning of the year 9999, Python's last one.
LAST_MOMENT = 253_370_764_800_000

#: With `missed="none"`, an occurrence is put if it is at most so late, in milliseconds.
MOST_LATE = 60_000


@dataclass(frozen=True)
class State:
    """The moments are in milliseconds since 1970."""

    #: The next occurrence; None if it has ended.
    next: int | None = None
    #: The occurrence whose job was put last, and by how much that was late, in milliseconds.
    last: int | None = None
    late: int = 0
    #: How many occurrences were missed.
    missed: int = 0
    #: How many jobs were put, if that is limited.
    count: int = 0
    paused: bool = False
    ended: bool = False

    def encode(self) -> bytes:
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps({name: value for name, value in told.items() if value}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, line: bytes) -> State:
        """Reads the state; a later version's further fields are left out."""
        told = json.loads(line)
        return cls(**{field.name: told[field.name] for field in fields(cls) if field.name in told})

    def deadline(self, now: int) -> int:
        """Returns the moment at which a worker has to look at the schedule."""
        return now + LONGEST_WAIT if self.next is None else min(self.next, now + LONGEST_WAIT)


@dataclass(frozen=True)
class Element:
    state: State
    plan: bytes
    payload: bytes

    def encode(self) -> bytes:
        return b"\n".join((self.state.encode(), self.plan, self.payload))

    @classmethod
    def decode(cls, element: bytes) -> Element:
        state, plan, payload = element.split(b"\n", 2)
        return cls(State.decode(state), plan, payload)


@dataclass(frozen=True)
class Rules:
    """What holds of a schedule's occurrences."""

    #: What becomes of missed occurrences: `one` job for the last, `all`, or `none`.
    missed: str = "one"
    #: The last moment at which it may occur.
    until: int | None = None
    #: How many jobs it puts at most.
    times: int | None = None

    def next(self, state: State, moment: int | None) -> State:
        """Returns the state with its next occurrence, or ended if that is None, too late, or one too many."""
        end = LAST_MOMENT if self.until is None else self.until
        is_over = moment is None or moment > end
        is_over = is_over or (self.times is not None and state.count >= self.times)
        return replace(state, next=None if is_over else moment, ended=is_over)


def step(state: State, occurrences: Occurrences, rules: Rules, now: int, most: int) -> tuple[State, Sequence[int]]:
    """Returns the state after the occurrences that are due, and those of them for which jobs are put, at most `most`.

    If there is more to do, its next occurrence is not after `now`.
    """
    if state.next is None or state.next > now:
        return state, ()
    seen = occurrences.due(state.next, now if rules.until is None else min(now, rules.until))
    following = occurrences.after(seen[-1])
    jobs: Sequence[int] = ()
    if state.paused:
        return rules.next(state, following), jobs
    if rules.missed == "all":
        jobs = seen[: most if rules.times is None else min(most, rules.times - state.count)]
        if len(jobs) < len(seen):
            seen, following = jobs, seen[len(jobs)]
    elif (more := rules.next(state, following).next) is None or more > now:
        # All that are due have been seen, so this is the last one.
        is_late = rules.missed == "none" and now - seen[-1] > MOST_LATE
        jobs = () if is_late else seen[-1:]
    state = replace(state, missed=state.missed + len(seen) - len(jobs))
    if jobs:
        count = 0 if rules.times is None else state.count + len(jobs)
        state = replace(state, last=jobs[-1], late=max(0, now - jobs[-1]), count=count)
    return rules.next(state, following), jobs


@dataclass(frozen=True)
class Stored:
    """The reply of STORE."""

    #: False: the schedule has changed meanwhile, or somebody else has it.
    done: bool
    #: Why a job was refused; nothing was stored.
    refusal: str | None = None
    #: How many of the jobs, the first ones, would have been accepted.
    fits: int = 0


def look(key: str, name: bytes) -> Question[tuple[int, bytes | None]]:
    """Reads the server's time, in milliseconds, and the element of a schedule, or None."""

    def read(reply: Any) -> tuple[int, bytes | None]:
        (seconds, microseconds), element = reply
        return int(seconds) * 1000 + int(microseconds) // 1000, None if element is None else as_bytes(element)

    return Question(("EVAL", LOOK, 1, key, name), read)


def store(
    keys: Sequence[str],
    name: bytes,
    before: bytes | None,
    after: bytes,
    deadline: int,
    jobs: Sequence[Sequence[Any]] = (),
    token: str = "",
) -> Question[Stored]:
    """Stores a schedule's element, and jobs, if it was `before` (None: if there was none), and held under the token.

    `keys`: of the schedules, and of the queue, or of one for each job. `jobs`: for each the words of a PUSH after its
    key.
    """

    def read(reply: Any) -> Stored:
        if reply[0] < 0:
            return Stored(False, as_bytes(reply[2]).decode(errors="replace"), reply[1])
        return Stored(reply[0] == 1)

    words = [word for job in jobs for word in (len(job), *job)]
    return Question(("EVAL", STORE, len(keys), *keys, name, token, before or b"", after, deadline, *words), read)


def job_id(name: bytes, moment: int) -> bytes:
    return b"%b@%d" % (name, moment)
