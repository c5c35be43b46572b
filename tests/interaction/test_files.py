"""The filesystem methods over the wire: paths, order, limits, bad input, and what a lost client leaves."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from paddock.config import Settings
from paddock.fs.local import LocalOperations
from paddock.server.app import serve
from tests.processes import open_descriptors
from tests.wire import WireClient, WireError, attach, encode, served, session

INVALID_REQUEST, INVALID_PARAMS, FAILED, NOT_FOUND = -32600, -32602, -32603, -32004

WALK = {"maxDepth": 5, "maxDirectories": 100, "maxEntries": 100, "followDirectorySymlinks": False}
RESTRICTED = {
    "permissions": {
        "type": "managed",
        "file_system": {"type": "restricted", "entries": []},
        "network": "restricted",
    },
    "windowsSandboxLevel": "disabled",
}


async def refusal(client: WireClient, method: str, **params: Any) -> tuple[int, str]:
    with pytest.raises(WireError) as caught:
        await client.call(method, params)
    return caught.value.code, caught.value.message


async def content(client: WireClient, path: Path | str) -> bytes:
    return base64.b64decode((await client.call("fs/readFile", {"path": str(path)}))["dataBase64"])


# --- paths ------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory whose path has no links in it."""
    return tmp_path.resolve()


async def test_an_answer_uses_the_form_in_which_the_path_was_given(root: Path) -> None:
    (root / "a b").mkdir()
    (root / "a b" / "ä").touch()

    async with session() as client:
        for form in (str, Path.as_uri):
            canonical = await client.call("fs/canonicalize", {"path": form(root / "a b") + "/../a b/"})
            walked = await client.call("fs/walk", {"path": form(root), "options": WALK})

            assert canonical == {"path": form(root / "a b")}
            assert [entry["path"] for entry in walked["entries"]] == [
                form(root / "a b"),
                form(root / "a b" / "ä"),
            ]


async def test_a_name_that_is_no_text_can_be_read_listed_and_used(root: Path) -> None:
    (root / os.fsdecode(b"\xff")).write_text("x")

    async with session() as client:
        listed = await client.call("fs/readDirectory", {"path": str(root)})
        walked = await client.call("fs/walk", {"path": str(root), "options": WALK})
        (entry,) = walked["entries"]

        assert [found["fileName"] for found in listed["entries"]] == ["\N{REPLACEMENT CHARACTER}"]
        # There is no such absolute path in JSON.
        assert entry["path"] == f"{root.as_uri()}/%FF"
        assert await content(client, entry["path"]) == b"x"
        assert (await refusal(client, "fs/readFile", path=entry["path"] + "%FE"))[0] == NOT_FOUND


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("relative", INVALID_PARAMS),
        ("", INVALID_PARAMS),
        ("http://x/y", INVALID_PARAMS),
        ("/nul\0", INVALID_PARAMS),
        ("file:///nul%00", INVALID_PARAMS),
        ("file://elsewhere/x", INVALID_REQUEST),
        ("file:///C:/x", INVALID_REQUEST),
        ("/dev/null/x", FAILED),
        ("/dev/null", INVALID_REQUEST),
        ("/proc", INVALID_REQUEST),
        ("/" + "x" * 300, FAILED),
        ("/x" * 3000, FAILED),
        ("/nowhere/at/all", NOT_FOUND),
    ],
)
async def test_a_path_that_can_not_be_read_is_refused_with_its_code(path: str, code: int) -> None:
    async with session() as client:
        found, message = await refusal(client, "fs/readFile", path=path)
        assert found == code
        assert message
        assert await client.call("environment/status") == {"status": "ready"}


async def test_errors_name_the_path_and_the_reason(tmp_path: Path) -> None:
    async with session() as client:
        path = str(tmp_path / "no" / "file")
        _, message = await refusal(client, "fs/writeFile", path=path, dataBase64="")

    assert message == f"can't write {path!r}: No such file or directory (os error 2)"


# --- contents ---------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 49_151, 49_152, 49_153, 3 * 1024 * 1024 + 49_152, 10_000_001])
async def test_files_of_every_size_arrive_whole(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    path = tmp_path / "file"

    async with session() as client:
        await client.call("fs/writeFile", {"path": str(path), "dataBase64": encode(data)})
        assert path.read_bytes() == data
        assert await content(client, path) == data


@pytest.mark.parametrize("data", ["!!", "QQ", "QR==", "Q" * 4001, "Q" * 3999 + "!"])
async def test_base64_that_is_wrong_changes_nothing(tmp_path: Path, data: str) -> None:
    (tmp_path / "file").write_text("old")

    async with session() as client:
        code, message = await refusal(client, "fs/writeFile", path=str(tmp_path / "file"), dataBase64=data)

    assert code == INVALID_REQUEST
    assert "base64" in message
    assert (tmp_path / "file").read_text() == "old"


async def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.truncate(512 * 1024 * 1024 + 1)

    async with session() as client:
        code, message = await refusal(client, "fs/readFile", path=str(tmp_path / "sparse"))

    assert (code, "536870912" in message) == (INVALID_REQUEST, True)


async def test_an_atomic_write_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o600)
    before = path.stat()

    async with session() as client:
        await client.call("fs/writeFile", {"path": str(path), "dataBase64": encode(b"new"), "atomic": True})

    assert path.read_text() == "new"
    assert (path.stat().st_ino == before.st_ino, path.stat().st_mode) == (False, before.st_mode)


# --- a sandbox that can't be enforced ---------------------------------------


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("fs/readFile", {"path": "/etc/hostname"}),
        ("fs/writeFile", {"path": "/tmp/paddock-never-written", "dataBase64": ""}),
        ("fs/getMetadata", {"path": "/"}),
        ("fs/readDirectory", {"path": "/"}),
        ("fs/canonicalize", {"path": "/"}),
        ("fs/walk", {"path": "/", "options": WALK}),
        ("fs/createDirectory", {"path": "/tmp/paddock-never-made"}),
        ("fs/remove", {"path": "/tmp/paddock-never-there"}),
        ("fs/copy", {"sourcePath": "/etc/hostname", "destinationPath": "/tmp/paddock-x", "recursive": False}),
        ("fs/open", {"handleId": "h", "path": "/etc/hostname"}),
    ],
)
async def test_a_restricted_sandbox_is_refused(method: str, params: dict[str, Any]) -> None:
    async with session() as client:
        code, message = await refusal(client, method, **params, sandbox=RESTRICTED)

    assert (code, "cannot be enforced" in message) == (INVALID_PARAMS, True)


async def test_a_sandbox_that_restricts_no_files_runs_directly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    unrestricted = {"type": "managed", "file_system": {"type": "unrestricted"}, "network": "restricted"}
    async with session() as client:
        for permissions in ({"type": "disabled"}, {"type": "external", "network": "enabled"}, unrestricted):
            sandbox = {"permissions": permissions, "windowsSandboxLevel": "disabled"}
            found = await client.call("fs/getMetadata", {"path": str(tmp_path / "file"), "sandbox": sandbox})
            assert found["size"] == 1


# --- open files -------------------------------------------------------------


async def test_requests_for_a_file_may_be_sent_without_waiting(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    async with session(concurrent_requests=4) as client:
        opening = client.request("fs/open", {"handleId": "h", "path": path, "mode": "replace"})
        # Each overwrites the one before, so that their order shows.
        writes = [
            client.request("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": encode(b"%03d" % number)})
            for number in range(100)
        ]
        closing = client.request("fs/close", {"handleId": "h"})
        reopening = client.request("fs/open", {"handleId": "h", "path": path})
        reading = client.request("fs/readBlock", {"handleId": "h", "offset": 0, "len": 10})

        assert await client.answer(opening) == {"handleId": "h"}
        for write in writes:
            assert await client.answer(write) == {}
        assert await client.answer(closing) == {}
        await client.answer(reopening)
        assert await client.answer(reading) == {"chunk": encode(b"099"), "eof": True}


async def test_a_file_whose_opening_failed_is_unknown_and_its_id_is_free(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    async with session() as client:
        opening = client.request("fs/open", {"handleId": "h", "path": str(tmp_path / "no")})
        reading = client.request("fs/readBlock", {"handleId": "h", "offset": 0, "len": 1})
        for request, code in ((opening, NOT_FOUND), (reading, NOT_FOUND)):
            with pytest.raises(WireError) as caught:
                await client.answer(request)
            assert caught.value.code == code

        await client.call("fs/open", {"handleId": "h", "path": str(tmp_path / "file")})
        again = await refusal(client, "fs/open", handleId="h", path=str(tmp_path / "file"))

    assert again[0] == INVALID_REQUEST


@pytest.mark.parametrize(
    ("method", "others"),
    [
        ("fs/open", {"path": "/etc/hostname"}),
        ("fs/readBlock", {"offset": 0, "len": 1}),
        ("fs/writeBlock", {"offset": 0, "chunk": "QQ=="}),
        ("fs/close", {}),
    ],
)
async def test_a_handle_id_of_33_bytes_is_refused_everywhere(method: str, others: dict[str, object]) -> None:
    async with session() as client:
        code, _ = await refusal(client, method, handleId="h" * 33, **others)
        assert code == INVALID_REQUEST
        assert await client.call("fs/close", {"handleId": "h" * 32}) == {}


@pytest.mark.parametrize("length", [0, 1024 * 1024 + 1])
async def test_a_block_of_a_wrong_length_is_refused_and_the_file_stays_open(
    tmp_path: Path, length: int
) -> None:
    (tmp_path / "file").write_text("x")
    async with session() as client:
        await client.call("fs/open", {"handleId": "h", "path": str(tmp_path / "file")})
        code, _ = await refusal(client, "fs/readBlock", handleId="h", offset=0, len=length)
        assert code == INVALID_REQUEST
        code, _ = await refusal(client, "fs/writeBlock", handleId="h", offset=0, chunk=encode(bytes(length)))
        assert code == INVALID_REQUEST
        assert await client.call("fs/readBlock", {"handleId": "h", "offset": 0, "len": 1})


async def test_a_lost_client_leaves_no_file_open_and_nothing_published(tmp_path: Path) -> None:
    async with served() as server:
        before = open_descriptors()
        client = attach(server)
        await client.initialize()
        for number in range(20):
            params = {"handleId": str(number), "path": str(tmp_path / str(number)), "mode": "replace"}
            await client.call("fs/open", params | {"atomic": number % 2 == 0})
            await client.call("fs/writeBlock", {"handleId": str(number), "offset": 0, "chunk": "QQ=="})
        client.request("fs/open", {"handleId": "x", "path": str(tmp_path / "1")})
        client.link.abort()
        await client.closed()
        await server.quiet()

        assert open_descriptors() == before

    assert sorted(os.listdir(tmp_path), key=int) == [str(number) for number in range(1, 20, 2)]


async def test_an_atomic_file_is_published_when_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    async with session() as client:
        params = {"handleId": "h", "path": str(path), "mode": "replace", "atomic": True}
        await client.call("fs/open", params)
        await client.call("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": encode(b"new")})
        assert not path.exists()
        await client.call("fs/close", {"handleId": "h"})
        assert path.read_text() == "new"

        code, _ = await refusal(client, "fs/open", handleId="r", path=str(path), atomic=True)
        assert code == INVALID_REQUEST


# --- many at once -----------------------------------------------------------


async def test_a_large_read_does_not_delay_a_small_one(tmp_path: Path) -> None:
    (tmp_path / "small").write_text("x")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(40_000_000)
    async with served() as server:
        patient, hurried = attach(server), attach(server)
        await patient.initialize()
        await hurried.initialize()
        reading = patient.request("fs/readFile", {"path": str(tmp_path / "large")})

        assert await content(hurried, tmp_path / "small") == b"x"

        assert not any(message.get("id") == reading for message in patient.unread)
        assert len((await patient.answer(reading))["dataBase64"]) == 53_333_336


async def test_large_answers_to_a_client_that_does_not_read_wait_for_it(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    async with serve(Settings()) as server:
        client = attach(server)
        await client.initialize()
        await client.call("fs/open", {"handleId": "h", "path": str(tmp_path / "file")})
        client.link.pause_reading()
        blocks = [
            client.request("fs/readBlock", {"handleId": "h", "offset": at << 20, "len": 1 << 20})
            for at in range(60)
        ]
        # Another client is served meanwhile; after so many answers the others have come as far as they can.
        other = attach(server)
        await other.initialize()
        for _ in range(50):
            await content(other, "/proc/version")
        assert client.server_link.buffered_bytes < 24 * 1024 * 1024

        client.link.resume_reading()
        for block in blocks:
            assert not (await client.answer(block))["eof"]


async def test_a_thousand_requests_of_every_kind_at_once_are_all_answered(tmp_path: Path) -> None:
    async with session() as client:
        requests = []
        for number in range(250):
            path = str(tmp_path / f"d{number % 10}" / str(number))
            requests += [
                client.request("fs/createDirectory", {"path": os.path.dirname(path)}),
                client.request("fs/writeFile", {"path": path, "dataBase64": "QQ=="}),
                client.request("fs/getMetadata", {"path": path}),
                client.request("fs/walk", {"path": str(tmp_path), "options": WALK}),
            ]
        codes = []
        for request in requests:
            try:
                await client.answer(request)
            except WireError as error:
                codes.append(error.code)

    # What is written before its directory was made is not found; nothing else can go wrong.
    assert set(codes) <= {NOT_FOUND}


async def test_failed_close_that_is_confirmed_fails_alike_however_often_it_is_asked_for(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "gone"
    directory.mkdir()
    opening = {"handleId": "h", "path": str(directory / "file"), "mode": "replace", "atomic": True}
    told = []
    async with session() as client:
        await client.call("fs/open", opening)
        shutil.rmtree(directory)
        for _ in range(3):
            with pytest.raises(WireError) as raised:
                await client.call("fs/close", {"handleId": "h", "confirm": True})
            told.append((raised.value.code, raised.value.message))
    assert told == [told[0]] * 3


async def test_the_close_of_an_earlier_file_is_not_taken_for_that_of_a_later_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    opening = {"handleId": "h", "path": str(file), "mode": "replace", "atomic": True}
    async with session() as client:
        await client.call("fs/open", opening)
        await client.call("fs/close", {"handleId": "h", "confirm": True})
        assert await client.call("fs/close", {"handleId": "h", "confirm": True}) == {}
        file.unlink()
        await client.call("fs/open", opening)
        await client.call("fs/close", {"handleId": "h", "discard": True})
        with pytest.raises(WireError, match="unknown file handle"):
            await client.call("fs/close", {"handleId": "h", "confirm": True})
    assert not file.exists()


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"maxEntries": 0}, "must be greater than zero"),
        ({"maxDirectories": 0}, "must be greater than zero"),
        ({"maxEntries": 1 << 30}, "exceed maximums"),
        ({"maxDepth": 1 << 30}, "exceed maximums"),
    ],
)
async def test_limits_of_a_walk_that_mean_nothing_are_refused(limit: dict[str, int], reason: str) -> None:
    async with session() as client:
        with pytest.raises(WireError, match=reason):
            await client.call("fs/walk", {"path": "/", "options": WALK | limit})


async def test_request_that_crashes_is_answered_without_a_word_of_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def crash(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(LocalOperations, "perform", crash)
    async with session() as client:
        with pytest.raises(WireError, match="fs/readDirectory failed in the server; see its log"):
            await client.call("fs/readDirectory", {"path": str(tmp_path)})
        monkeypatch.undo()
        assert await client.call("fs/readDirectory", {"path": str(tmp_path)}) == {"entries": []}
