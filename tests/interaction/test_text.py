"""`fs/search` and `fs/edit` as a client sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.server.handlers import fs_text
from paddock.server.handlers.fs_text import ENCODED_HERE
from tests.turn_count import counted
from tests.wire import WireError, session

CONFINED = {
    "permissions": {
        "type": "managed",
        "file_system": {"type": "restricted", "entries": []},
        "network": "restricted",
    },
    "windowsSandboxLevel": "disabled",
}


async def test_matches_are_answered_in_the_form_of_the_request(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("one\n  needle\n")
    async with session() as client:
        by_path = await client.call("fs/search", {"path": str(tmp_path), "pattern": "needle"})
        by_uri = await client.call("fs/search", {"path": f"file://{tmp_path}", "pattern": "needle"})
        names = await client.call("fs/search", {"path": str(tmp_path), "pattern": "a b", "kind": "name"})

    match = {"path": str(tmp_path / "a b.txt"), "line": 2, "column": 3, "text": "  needle", "cut": False}
    assert by_path == {"matches": [match], "errors": [], "truncated": False}
    assert by_uri["matches"][0]["path"] == f"file://{tmp_path}/a%20b.txt"
    assert names["matches"] == [match | {"line": None, "column": None, "text": None}]


async def test_searches_under_way_together_get_their_own_answers(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"file-{number}").write_text(f"needle-{number}")
    async with session() as client:
        requests = [
            client.request("fs/search", {"path": str(tmp_path), "pattern": f"needle-{number}"})
            for number in range(8)
        ]
        found = [await client.answer(request) for request in requests]
    assert [result["matches"][0]["text"] for result in found] == [f"needle-{number}" for number in range(8)]


@pytest.mark.parametrize(
    "params",
    [
        {"pattern": ""},
        {"pattern": "x" * 1001},
        {"kind": "else"},
        {"maxMatches": 0},
        {"maxMatches": 10_001},
        {"timeoutMs": 0},
        {"timeoutMs": 60_001},
        {"maxFileBytes": 0},
        {"regex": 1},
    ],
)
async def test_limits_out_of_range_are_refused(params: dict[str, Any]) -> None:
    async with session() as client:
        with pytest.raises(WireError) as refusal:
            await client.call("fs/search", {"path": "/nonexistent", "pattern": "x"} | params)
    assert refusal.value.code == -32602
    assert next(iter(params)) in refusal.value.message


async def test_an_edit_is_answered_with_its_diff(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a\nb\nc\n")
    async with session() as client:
        result = await client.call("fs/edit", {"path": str(path), "edits": [{"old": "b", "new": "é"}]})
    assert result["diff"] == f"--- {path}\n+++ {path}\n@@ -1,3 +1,3 @@\n a\n-b\n+é\n c\n"
    assert path.read_text() == "a\né\nc\n"


@pytest.mark.parametrize("count", [10, ENCODED_HERE])
async def test_a_long_diff_is_encoded_in_a_thread(tmp_path: Path, count: int) -> None:
    path = tmp_path / "file"
    path.write_text("a\n" * count)
    edits = [{"old": "a", "new": "b", "count": count}]
    async with session() as client:
        with counted(fs_text, "write_result") as written:
            result = await client.call("fs/edit", {"path": str(path), "edits": edits})
    assert result["diff"].count("\n+b") == count
    assert (written.on_loop, written.elsewhere) == ((1, 0) if count == 10 else (0, 1))


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [{"old": "", "new": "x"}],
        [{"old": "a"}],
        *([{"old": "a", "new": "b", "count": count}] for count in (0, 2**31, 10**400)),
    ],
)
async def test_edits_that_make_no_sense_are_refused(tmp_path: Path, edits: list[Any]) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    async with session() as client:
        with pytest.raises(WireError) as refusal:
            await client.call("fs/edit", {"path": str(path), "edits": edits})
    assert refusal.value.code == -32602
    assert path.read_text() == "a"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("fs/search", {"pattern": "x"}),
        ("fs/edit", {"edits": [{"old": "a", "new": "b"}]}),
        ("fs/watch", {}),
    ],
)
async def test_a_sandbox_that_can_not_be_enforced_refuses_the_request(
    tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    async with session() as client:
        with pytest.raises(WireError, match="cannot be enforced") as refusal:
            await client.call(method, {"path": str(tmp_path), "sandbox": CONFINED} | params)
    assert refusal.value.code == -32602
