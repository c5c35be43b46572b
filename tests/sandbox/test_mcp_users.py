"""A client of `paddock mcp` opens nothing that the server's profile denies, by no name, as either user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import paddock
from tests.mcp_client import fields, in_process, rules_file, text
from tests.sandbox.user_server import user_server

META_KEY = "codex/sandbox-state-meta"


def special(kind: str, access: str) -> dict[str, Any]:
    return {"path": {"type": "special", "value": {"kind": kind}}, "access": access}


def exact(path: Path | str, access: str) -> dict[str, Any]:
    return {"path": {"type": "path", "path": str(path)}, "access": access}


def profile(*entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "managed",
        "file_system": {"type": "restricted", "entries": list(entries)},
        "network": "restricted",
    }


@dataclass
class Place:
    """`alias` leads to `real`, which holds a secret; `links/away` leads to what is hidden."""

    workspace: Path
    real: Path
    alias: Path
    hidden: Path
    links: Path


@pytest.fixture(scope="module")
def url(user: int, ground: Path) -> Iterator[str]:
    with user_server(user, ground, allow_escalation=True) as url:
        yield url


@pytest.fixture
def place(ground: Path, user: int) -> Iterator[Place]:
    top = Path(tempfile.mkdtemp(prefix="m-", dir=ground))
    found = Place(*(top / name for name in ("ws", "real", "alias", "hidden", "links")))
    for path in (found.workspace, found.real / "secret", found.real / "open", found.hidden, found.links):
        path.mkdir(parents=True)
    (found.real / "secret/key").write_text("SECRET")
    (found.real / "open/key").write_text("OPEN")
    (found.hidden / "key").write_text("SECRET")
    found.alias.symlink_to("real")
    (found.links / "away").symlink_to("../hidden")
    for directory, _, files in os.walk(top):
        for path in (Path(directory), *(Path(directory) / name for name in files)):
            os.chown(path, user, user)
    yield found
    shutil.rmtree(top, ignore_errors=True)


async def told(url: str, place: Place, cap: dict[str, Any], asked: dict[str, Any], *paths: Path) -> str:
    """What a command of a client that narrows the cap reads of the paths."""
    meta: Any = {META_KEY: {"permissionProfile": asked, "sandboxCwd": str(place.workspace)}}
    command = f"cat {' '.join(map(str, paths))} 2>/dev/null; echo done"
    arguments = {"command": command, "workdir": str(place.workspace), "login": False}
    async with in_process(url, place.workspace, profile=cap) as client:
        return text(await client.call_tool("shell", arguments, meta=meta))


NEEDED = (special("minimal", "read"), special("project_roots", "write"))


@pytest.mark.parametrize("granted", ["alias/secret", "alias/secret/key", "real/secret/key", "alias"])
@pytest.mark.parametrize("denied", ["real/secret", "alias/secret"])
async def test_denial_holds_under_every_name_of_its_place(
    url: str, place: Place, granted: str, denied: str
) -> None:
    top = place.workspace.parent
    keys = place.real / "secret/key", place.alias / "secret/key"
    cap = profile(special("root", "read"), special("project_roots", "write"), exact(top / denied, "deny"))
    async with paddock.connect(url) as box:
        assert (await box.run(["cat", *map(str, keys)], cwd=top)).stdout == b"SECRETSECRET"
    assert "SECRET" not in await told(url, place, cap, profile(*NEEDED, exact(top / granted, "read")), *keys)


async def test_denial_holds_within_what_programs_need(url: str, place: Place) -> None:
    cap = profile(special("root", "read"), special("project_roots", "write"), exact("/etc/passwd", "deny"))
    passwd = Path("/etc/passwd")
    assert "root:" not in await told(url, place, cap, profile(*NEEDED), passwd)
    open_cap = profile(special("root", "read"), special("project_roots", "write"))
    assert "root:" in await told(url, place, open_cap, profile(*NEEDED), passwd)


async def test_link_leads_no_grant_to_what_the_server_does_not_show(url: str, place: Place) -> None:
    cap = profile(*NEEDED, exact(place.links, "read"))
    asked = profile(*NEEDED, exact(place.links / "away", "read"))
    answer = await told(url, place, cap, asked, place.hidden / "key", place.links / "away/key")
    assert "SECRET" not in answer
    assert "does not show" in answer
    whole = profile(special("root", "read"), special("project_roots", "write"))
    assert "SECRET" in await told(url, place, whole, asked, place.hidden / "key")


async def test_link_to_what_both_grant_is_followed(url: str, place: Place) -> None:
    cap = profile(
        special("root", "read"), special("project_roots", "write"), exact(place.real / "secret", "deny")
    )
    asked = profile(*NEEDED, exact(place.alias / "open", "read"))
    answer = await told(url, place, cap, asked, place.real / "open/key", place.real / "secret/key")
    assert "OPEN" in answer
    assert "SECRET" not in answer


READ_ONLY = {"type": "read-only"}


async def shell(client: Any, place: Place, command: str, asked: dict[str, Any] | None = None) -> Any:
    """The result of a command of a client that narrows the cap, if it asks for something."""
    more: Any = {}
    if asked is not None:
        more["meta"] = {META_KEY: {"permissionProfile": asked, "sandboxCwd": str(place.workspace)}}
    arguments = {"command": command, "workdir": str(place.workspace), "login": False}
    return fields(await client.call_tool("shell", arguments, **more))


async def test_program_of_an_earlier_call_stays_in_the_sandbox_of_a_call_that_may_not_write_it(
    url: str, place: Place
) -> None:
    tool, proof = place.workspace / "tool", place.hidden / "proof"
    rules = rules_file(place.links, f'prefix_rule(pattern=["{tool}"], decision="allow")\n')
    planting = f"printf '#!/bin/sh\\necho x > {proof}\\n' > {tool}; chmod 755 {tool}"
    meta: Any = {META_KEY: {"permissionProfile": READ_ONLY, "sandboxCwd": str(place.workspace)}}
    async with in_process(url, place.workspace, rules=rules) as client:
        assert (await shell(client, place, planting))["exit_code"] == 0
        narrowed = await shell(client, place, str(tool), READ_ONLY)
        await client.call_tool("exec_command", {"cmd": str(tool)}, meta=meta)
        assert "verdicts" not in narrowed
        assert not proof.exists()
    # Where no call may write it, it is the user's own.
    async with in_process(url, place.workspace, rules=rules, profile=":read-only") as client:
        await shell(client, place, str(tool), READ_ONLY)
    assert proof.exists()


@pytest.mark.parametrize("granted", ["", "hooks", "worktrees/ws/logs"])
async def test_grant_of_a_client_opens_no_repository_that_the_cap_protects(
    url: str, place: Place, user: int, granted: str
) -> None:
    repository = place.workspace.parent / "bare"
    opened = repository / granted
    for path in (repository / "hooks", repository / "worktrees/ws/logs"):
        path.mkdir(parents=True)
    (repository / "HEAD").write_text("ref: refs/heads/main\n")
    (repository / "worktrees/ws/commondir").write_text("../..\n")
    (place.workspace / ".git").write_text(f"gitdir: {repository}/worktrees/ws\n")
    for directory, _, files in os.walk(repository):
        for path in (Path(directory), *(Path(directory) / name for name in files)):
            os.chown(path, user, user)
    cap = profile(special("root", "read"), exact(place.workspace.parent, "write"))
    asked = profile(special("root", "read"), special("project_roots", "write"), exact(opened, "write"))
    async with in_process(url, place.workspace, profile=cap) as client:
        for wanted in (None, asked):
            result = await shell(client, place, f"touch made; touch {opened}/evil", wanted)
            assert result["exit_code"] != 0
            assert (place.workspace / "made").exists()
            assert not (opened / "evil").exists()


async def test_grant_of_a_client_opens_what_the_cap_names(url: str, place: Place) -> None:
    opened = place.real / "open"
    cap = profile(special("root", "read"), special("project_roots", "write"), exact(opened, "write"))
    asked = profile(special("root", "read"), exact(opened, "write"))
    async with in_process(url, place.workspace, profile=cap) as client:
        assert (await shell(client, place, f"touch {opened}/ours", asked))["exit_code"] == 0
        assert (await shell(client, place, "touch ours", asked))["exit_code"] != 0


OPEN_CAP = {"type": "managed", "file_system": {"type": "unrestricted"}, "network": "restricted"}


@pytest.mark.parametrize("cap", [OPEN_CAP, ":danger-full-access"], ids=["all-files", "no-sandbox"])
async def test_program_of_an_earlier_call_stays_in_the_sandbox_whatever_the_server_grants(
    url: str, place: Place, cap: Any
) -> None:
    tool, proof = place.workspace / "tool", place.hidden / "proof"
    rules = rules_file(place.links, f'prefix_rule(pattern=["{tool}"], decision="allow")\n')
    planting = f"printf '#!/bin/sh\\necho x > {proof}\\n' > {tool}; chmod 755 {tool}"
    async with in_process(url, place.workspace, rules=rules, profile=cap) as client:
        assert (await shell(client, place, planting, {"type": "workspace-write"}))["exit_code"] == 0
        await shell(client, place, str(tool), READ_ONLY)
        meta: Any = {META_KEY: {"permissionProfile": READ_ONLY, "sandboxCwd": str(place.workspace)}}
        await client.call_tool("exec_command", {"cmd": str(tool)}, meta=meta)
        assert not proof.exists()
