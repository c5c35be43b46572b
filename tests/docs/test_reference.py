"""The references are what the code says, and their examples are what happens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paddock.protocol.codec import convert_params
from paddock.protocol.methods import METHODS
from scripts.reference import events
from scripts.reference.__main__ import stale_pages
from scripts.reference.example import Example, Varies, shown
from scripts.reference.examples import CONVERSATION, EXAMPLES
from tests.wire import WireClient, attach, served

WORK = "/work"


def test_every_page_is_what_the_code_says() -> None:
    assert stale_pages() == [], "run `make reference`"


def test_every_offered_method_has_an_example() -> None:
    assert EXAMPLES.keys() == {name for name, method in METHODS.items() if method.result is not None}


@pytest.mark.parametrize("example", CONVERSATION, ids=lambda example: example.title)
def test_what_an_example_shows_has_the_declared_types(example: Example) -> None:
    method = METHODS[example.method]
    assert method.result is not None
    convert_params(example.params, method.params)
    if example.error is None:
        msgspec.convert(shown(example.result), method.result)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[str]:
    """The directory that the examples call /work; its path has no links in it, and its files usual modes."""
    mask = os.umask(0o022)
    yield str(tmp_path.resolve())
    os.umask(mask)


async def test_the_examples_happen_as_they_are_shown(work: str) -> None:
    async with served() as server:
        client, operator = attach(server), attach(server, is_operator=True)
        await operator.initialize()
        for example in CONVERSATION:
            await hold(operator if example.is_operators else client, example, work)
        assert not client.unread


async def hold(client: WireClient, example: Example, work: str) -> None:
    """Ask what the example asks, and compare."""
    request_id = client.request(example.method, renamed(example.params, WORK, work))
    answer = await client.take(lambda message: message.get("id") == request_id)
    answer = renamed(answer, work, WORK)
    expected = {"result": example.result} if example.error is None else {"error": example.error}
    assert fits(answer, expected | {"id": request_id}), json.dumps(answer)
    if example.method == "initialize":
        client.send({"method": "initialized"})
    for method, params in example.events:
        event = renamed(await client.next(), work, WORK)
        assert fits(event, {"method": method, "params": params}), json.dumps(event)


def renamed(message: Any, old: str, new: str) -> Any:
    """A message with another directory in its paths."""
    return json.loads(json.dumps(message).replace(old, new))


def fits(found: Any, expected: Any) -> bool:
    """Whether a value is as expected, apart from what varies."""
    match expected:
        case Varies(shown=example):
            return type(found) is type(example)
        case dict():
            return found.keys() == expected.keys() and all(
                fits(found[name], member) for name, member in expected.items()
            )
        case list():
            return len(found) == len(expected) and all(map(fits, found, expected))
    return bool(found == expected)


def test_the_events_of_a_source_are_found_with_their_levels_and_fields() -> None:
    source = """
journal.info("process started", process=p, pid=1)
self._journal.error("request failed" if a else "request refused", error=fault, code=1)
log.info("not an event")
"""
    assert list(events.events_in(source)) == [
        events.Written("process started", "info", ("process", "pid")),
        events.Written("request failed", "error", ("code",)),
        events.Written("request refused", "error", ("code",)),
    ]


def test_an_event_whose_name_varies_is_refused() -> None:
    with pytest.raises(ValueError, match="is a constant"):
        list(events.events_in("journal.info(f'{p} started')"))
