"""What the entries of a profile cost."""

from __future__ import annotations

import gc

import pytest

from paddock.model import profile as model
from paddock.protocol import sandbox as wire
from paddock.protocol.path import parse_path


@pytest.mark.parametrize(
    "entry",
    [
        model.AccessEntry(path=model.ExactPath(path="/a"), access=model.Access.READ),
        wire.AccessEntry(path=wire.ExactPath(path=parse_path("/a")), access=model.Access.READ),
    ],
)
def test_the_garbage_collector_does_not_look_at_entries(
    entry: model.AccessEntry | wire.AccessEntry,
) -> None:
    assert not gc.is_tracked(entry)
    assert not gc.is_tracked(entry.path)
