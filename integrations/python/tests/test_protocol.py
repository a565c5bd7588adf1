"""The examples of what the packages for all languages do alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from redis._parsers.base import BaseParser

import dehydrator_queue
from dehydrator_queue import Backoff, Json
from dehydrator_queue.envelope import unwrap, wrap
from dehydrator_queue.job import Item
from dehydrator_queue.queue import server
from dehydrator_queue.queue.commands import Commands, reason_words
from dehydrator_queue.queue.library import passes
from dehydrator_queue.queue.opening import beside
from dehydrator_queue.wide import script
from dehydrator_queue.wide.directory import Known, home
from dehydrator_queue.worker.cancellations import channel_of

PROTOCOL = Path(__file__).parents[2] / "protocol"
VECTORS: dict[str, Any] = json.loads((PROTOCOL / "vectors.json").read_text("utf-8"))
VERBS = Commands("jobs", "jobs:dead", Json())


def raw(text: str) -> bytes:
    return text.encode("latin-1")


def error_of(reply: str) -> Exception:
    return BaseParser.parse_error(reply)


@pytest.mark.parametrize("one", VECTORS["wrap"])
def test_wrap(one: Any) -> None:
    assert wrap(one["headers"], raw(one["element"])) == raw(one["envelope"])


@pytest.mark.parametrize("one", VECTORS["unwrap"])
def test_unwrap(one: Any) -> None:
    assert unwrap(raw(one["envelope"])) == (one["headers"], raw(one["element"]))


@pytest.mark.parametrize("one", VECTORS["key-of-id"])
def test_the_key_of_an_id(one: Any) -> None:
    assert {id: home(raw(id), one["keys"]) for id in one["ids"]} == one["ids"]


@pytest.mark.parametrize("one", VECTORS["directory"])
def test_a_directory(one: Any) -> None:
    known = Known.of(one["directory"])
    assert {id: known.places(raw(id)) for id in one["places"]} == one["places"]


@pytest.mark.parametrize("one", VECTORS["beside"])
def test_what_is_beside_a_key(one: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dehydrator_queue.queue.opening.is_cluster", lambda client: one["cluster"])
    assert beside(one["key"], None, "dead") == one["dead"]


@pytest.mark.parametrize("one", VECTORS["cancelled"])
def test_the_channel_of_cancelled_jobs(one: Any) -> None:
    assert channel_of(one["key"], None if one["cluster"] else one["db"]) == one["channel"]


@pytest.mark.parametrize(
    ("reply", "does"), [(it, name == "passing") for name in ("passing", "final") for it in VECTORS[name]]
)
def test_errors_pass_or_do_not(reply: str, does: bool) -> None:
    assert passes(error_of(reply)) is does


@pytest.mark.parametrize(("reply", "name"), VECTORS["errors"].items())
def test_errors_have_types(reply: str, name: str | None) -> None:
    told = server.explain(error_of(reply), "DEHYDRATOR.POLL")
    kind = None if name is None else getattr(dehydrator_queue, name)
    assert (type(told) is kind) if kind else not isinstance(told, dehydrator_queue.DehydratorError)


@pytest.mark.parametrize("one", VECTORS["backoff"])
def test_back_off(one: Any) -> None:
    backoff = Backoff(one["first"] / 1000, one["factor"], one["most"] / 1000, one["jitter"])
    for _ in range(20):
        assert one["from"] <= backoff.after(one["attempt"]) * 1000 <= one["to"] + 1e-9


def test_pauses() -> None:
    pause, pauses = server.FIRST_PAUSE, []
    for _ in VECTORS["pauses"]:
        pauses.append(pause * 1000)
        pause = min(2 * pause, server.LONGEST_PAUSE)
    assert pauses == VECTORS["pauses"]


@pytest.mark.parametrize("one", VECTORS["letters"])
def test_letters(one: Any) -> None:
    entry, fields = one["entry"]
    (letter,) = VERBS.dead_letters(1).read([[raw(entry), [raw(word) for word in fields]]])
    told = one["letter"]
    assert (letter.entry, letter.attempts, letter.reason) == (told["entry"], told["attempts"], told["reason"])
    assert letter.id.encode("utf-8", "surrogateescape") == raw(told["id"])
    assert (letter.element, letter.group) == (raw(told["element"]), told["group"])


@pytest.mark.parametrize("one", VECTORS["put-many"])
def test_what_became_of_many(one: Any) -> None:
    (question,) = VERBS.put_many([Item(1, None if one["drawn"] else "a")], False, None, None, None)[1]({})
    assert question.read([one["reply"]])[0][1].result == one["outcome"]


@pytest.mark.parametrize("one", VECTORS["reasons"])
def test_reasons(one: Any) -> None:
    words = reason_words(one["text"] * one["times"])
    assert words == (("REASON", (one["reason"] * one["cut"]).encode()) if one["reason"] else ())


def test_scripts() -> None:
    assert (PROTOCOL / "routed.lua").read_text("utf-8") == script.ROUTED
    assert (PROTOCOL / "change.lua").read_text("utf-8") == script.CHANGE
