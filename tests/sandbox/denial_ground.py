"""Where the cases of `denial_case` are run: files for each of them, a server, and what it says of them.

    python -m tests.sandbox.denial_ground USER DIRECTORY

is sent the names of groups, runs their cases as another user, without a trace and with one, and answers with
a line of JSON. Everything is imported while that is possible, because an ordinary user may not reach the
interpreter.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from stat import S_ISREG
from typing import Any

from paddock.transport import runtime_directory
from tests.http_origin import Asked, origin, response
from tests.sandbox.denial_case import GROUPS, Case
from tests.sandbox.launcher import become_user, use_copies
from tests.sandbox.profiles import PROJECT_ROOTS, ROOT, Json, entry, sandbox
from tests.wire import ENV, WireClient, attach, served

AT_ONCE = 4
"""Cases that run side by side."""

ENVIRONMENT = ENV | {
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
    "PYTHONDONTWRITEBYTECODE": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}

BUILD_LOG = """\
touch: cannot touch 'OUT/new': Read-only file system
cat: W/token: Permission denied
curl: (6) Could not resolve host: name.invalid
strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted
bash: line 1: OUT/file: Read-only file system
"""


@dataclass(frozen=True)
class Told:
    """A denial as the server tells it, with the names of the ground for what differs each time."""

    kind: str
    target: str | None
    rule: str | None
    certain: bool


@dataclass(frozen=True)
class Result:
    """What came of a case."""

    exit_code: int
    denials: tuple[Told, ...]
    is_suspected: bool
    """What the keywords alone would have said."""
    is_shown: bool | None = None
    """Whether the same command without a sandbox shows that the case is what it claims; None if not tried."""


@dataclass(frozen=True)
class Outcome:
    """What came of a case, without a trace and with one."""

    case: Case
    plain: Result
    traced: Result


def is_found(case: Case, result: Result) -> bool:
    """Whether what the case is denied was told, and certain."""
    return any(told.certain and _is_expected(case, told) for told in result.denials)


def mistakes(case: Case, result: Result) -> list[Told]:
    """What was told as certain and is not true."""
    also = [replace(case, kind=kind, target=target) for kind, target in case.also]
    return [
        told
        for told in result.denials
        if told.certain and not any(_is_expected(true, told) for true in (case, *also))
    ]


def _is_expected(case: Case, told: Told) -> bool:
    return told.kind == case.kind and (case.target is None or fnmatchcase(told.target or "", case.target))


def is_installed(case: Case) -> bool:
    """Whether this host has the program that the case is about."""
    return shutil.which(case.tool, path=ENV["PATH"]) is not None


# --- files ------------------------------------------------------------------


def _prepare(directory: Path, repository: Path | None) -> None:
    """Make W and OUT in a directory; `repository` is a W with a `.git` to take over."""
    workspace, outside = directory / "w", directory / "out"
    for made in ("secret", "ro", "deep", "sealed", "sandbox"):
        (workspace / made).mkdir(parents=True)
    outside.mkdir()
    for name in ("plain", "token", "locked", "secret/key", "ro/file", "deep/server.pem"):
        (workspace / name).write_text("key = 1\n")
    (outside / "file").write_text("a\n")
    (workspace / "tool").write_text("#!/bin/sh\n")
    (workspace / "tool").chmod(0o755)
    (workspace / "alias").symlink_to("token")
    (workspace / "way-out").symlink_to(outside)
    (workspace / "build.log").write_text(_placed(BUILD_LOG, directory))
    if repository is not None:
        shutil.copytree(repository / ".git", workspace / ".git")
        # So that there is something to stash.
        (workspace / "plain").write_text("key = 2\n")
    (workspace / "locked").chmod(0o000)
    (workspace / "sealed").chmod(0o555)


def _repository(directory: Path) -> Path:
    directory.mkdir()
    (directory / "plain").write_text("key = 1\n")
    for arguments in (["init", "-q", "--template="], ["add", "plain"], ["commit", "-qm", "x"]):
        subprocess.run(["git", *arguments], cwd=directory, check=True, env=ENVIRONMENT)
    return directory


def _profile(case: Case, directory: Path) -> Json:
    """What the case runs under."""
    workspace = directory / "w"
    context: Json = {"cwd": workspace.as_uri(), "workspaceRoots": [workspace.as_uri()]}
    if case.profile == "hidden":
        minimal = {"type": "special", "value": {"kind": "minimal"}}
        return sandbox(entry(minimal, "read"), entry(PROJECT_ROOTS, "write"), **context)
    return sandbox(
        entry(ROOT, "read"),
        entry(PROJECT_ROOTS, "write"),
        entry(workspace / "ro", "read"),
        *(entry(workspace / name, "deny") for name in ("secret", "token", "tool", "absent")),
        entry({"type": "glob_pattern", "pattern": "**/*.pem"}, "deny"),
        network={"usual": "restricted", "loopback": "loopback", "open": "enabled"}[case.profile],
        **context,
    )


def _placed(text: str, directory: Path) -> str:
    return re.sub(r"\bOUT\b", f"{directory}/out", re.sub(r"\bW/", f"{directory}/w/", text))


def _named(text: str | None, directory: Path, port: int) -> str | None:
    """The way back."""
    if text is None:
        return None
    for place, name in ((f"{directory}/out", "OUT"), (f"{directory}/w", "W"), (f":{port}", ":PORT")):
        text = text.replace(place, name)
    return text


# --- running ----------------------------------------------------------------


class _Ground:
    """Runs cases in a directory that is theirs, through one server."""

    def __init__(self, directory: Path, clients: Sequence[WireClient], port: int) -> None:
        self._directory = directory
        self._port = port
        self._repository = _repository(directory / "repository") if shutil.which("git") else None
        self._numbers = count(1)
        self._clients = asyncio.Queue[tuple[WireClient, Path]]()
        for client in clients:
            self._clients.put_nowait((client, self._made()))

    async def run(self, case: Case, *, is_traced: bool) -> Result:
        """Run it in a sandbox."""
        client, where = await self._clients.get()
        before = await asyncio.to_thread(_content, where)
        wanted = _profile(case, where) | {"trace": is_traced}
        exit_code, answer = await self._finish(client, case, where, sandbox=wanted)
        denials = tuple(self._told(denial, where) for denial in answer.get("denials", ()))
        # What is denied changes nothing, so that the next case can have the place.
        if await asyncio.to_thread(_content, where) != before:
            await asyncio.to_thread(_remove, where)
            where = await asyncio.to_thread(self._made)
        self._clients.put_nowait((client, where))
        return Result(exit_code, denials, answer["sandboxDenied"])

    async def is_shown(self, case: Case) -> bool:
        """Whether the same command without a sandbox shows that the case is what it claims."""
        client, kept = await self._clients.get()
        where = await asyncio.to_thread(self._made)
        exit_code, _ = await self._finish(client, case, where)
        await asyncio.to_thread(_remove, where)
        self._clients.put_nowait((client, kept))
        return (exit_code == 0) == (case.kind is not None)

    async def group(self, cases: Sequence[Case], *, is_compared: bool) -> list[tuple[Result, Result]]:
        """Run cases without a trace and with one; `is_compared`, without a sandbox, too."""
        plain, traced, shown = await asyncio.gather(
            asyncio.gather(*(self.run(case, is_traced=False) for case in cases)),
            asyncio.gather(*(self.run(case, is_traced=True) for case in cases)),
            asyncio.gather(*(self.is_shown(case) for case in cases if is_compared and case.is_shown_outside)),
        )
        answers = iter(shown)
        return [
            (replace(one, is_shown=next(answers) if is_compared and case.is_shown_outside else None), other)
            for case, one, other in zip(cases, plain, traced, strict=True)
        ]

    def _told(self, denial: Json, where: Path) -> Told:
        target, rule = (_named(denial[name], where, self._port) for name in ("target", "rule"))
        return Told(denial["kind"], target, rule, denial["certain"])

    async def _finish(self, client: WireClient, case: Case, where: Path, **params: Any) -> tuple[int, Json]:
        process_id = str(next(self._numbers))
        script = _placed(case.script, where).replace("PORT", str(self._port))
        cwd = str(where / "w")
        await client.start(process_id, "/bin/bash", "-c", script, cwd=cwd, env=ENVIRONMENT, **params)
        finished = await client.finish(process_id)
        assert finished.exit_code is not None
        return finished.exit_code, await client.call("process/wait", {"processId": process_id})

    def _made(self) -> Path:
        where = self._directory / str(next(self._numbers))
        where.mkdir()
        _prepare(where, self._repository)
        return where


def _content(where: Path) -> set[tuple[str, int, int, int]]:
    """What is in a place; of directories, which sandboxes hold places in for a while, only that they are."""
    found = set()
    for parent, directories, files in os.walk(where):
        for name in (*directories, *files):
            status = os.lstat(os.path.join(parent, name))
            is_file = S_ISREG(status.st_mode)
            changed = (status.st_size, status.st_mtime_ns) if is_file else (0, 0)
            found.add((os.path.join(parent, name), status.st_mode, *changed))
    return found


def _remove(where: Path) -> None:
    (where / "w/sealed").chmod(0o755)
    shutil.rmtree(where)


async def _answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
    status = "403 Forbidden" if asked.target == "/forbidden" else "200 OK"
    writer.write(response(b"ok", "Connection: close", status=status))


@asynccontextmanager
async def _opened(directory: Path) -> AsyncIterator[_Ground]:
    async with served() as server, origin(_answer) as web:
        clients = [attach(server) for _ in range(AT_ONCE)]
        for client in clients:
            await client.initialize(capabilities={"extensions": True})
        yield _Ground(directory, clients, int(web.url.rpartition(":")[2]))


# --- as another user --------------------------------------------------------


class UserGround:
    """Runs cases as another user. A context manager, so that its process ends with the tests."""

    def __init__(self, user: int, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sandbox.denial_ground", str(user), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._known: dict[str, list[Outcome]] = {}

    def outcomes(self, group: str) -> list[Outcome]:
        """What comes of the cases of a group, as far as this host has the programs."""
        if group not in self._known:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            print(group, file=self._process.stdin, flush=True)
            answer = json.loads(self._process.stdout.readline())
            self._known[group] = [
                Outcome(case, _result(plain), _result(traced))
                for case, (plain, traced) in zip(_installed(group), answer, strict=True)
            ]
        return self._known[group]

    def __enter__(self) -> UserGround:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process, suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()


def _installed(group: str) -> list[Case]:
    return [case for case in GROUPS[group] if is_installed(case)]


def _new(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _result(value: Json) -> Result:
    return Result(**value | {"denials": tuple(Told(**told) for told in value["denials"])})


async def _rehearse(directory: Path) -> None:
    async with _opened(_new(directory / "rehearsed")) as ground:
        await ground.run(GROUPS["bash"][0], is_traced=True)


async def _serve(directory: Path) -> None:
    # Root may do outside what it may not inside, whatever the profile says.
    is_compared = os.geteuid() != 0
    async with _opened(_new(directory / "ground")) as ground:
        while group := (await asyncio.to_thread(sys.stdin.readline)).strip():
            results = await ground.group(_installed(group), is_compared=is_compared)
            print(json.dumps([(asdict(plain), asdict(traced)) for plain, traced in results]), flush=True)


def _main(user: int, directory: Path) -> None:
    use_copies(directory)
    os.environ[runtime_directory.VARIABLE] = str(directory / "rehearsal")
    # Whatever is imported on demand must be here before the interpreter is out of reach.
    asyncio.run(_rehearse(directory))
    become_user(user, directory)
    asyncio.run(_serve(directory))


if __name__ == "__main__":
    _main(int(sys.argv[1]), Path(sys.argv[2]))
