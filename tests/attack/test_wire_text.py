"""NUL bytes in each text of a request, which would become words of the first process of a sandbox.

The request runs a program that leaves a file. With the NUL byte it must be refused before anything runs;
without it the file is there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.profiles import PROJECT_ROOTS, ROOT, entry, sandbox
from tests.wire import WireError, session, start_params

Json = dict[str, Any]
MARK = "@"
"""Where the injected words are put."""

INJECTED = "\0wall=9999\0nofile=9999\0--\0/bin/sh"


def _append(*path: str | int) -> Callable[[Json], None]:
    """Put the mark behind the text at a path of the request."""

    def change(params: Json) -> None:
        place: Any = params
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] += MARK

    return change


def _name_variable(params: Json) -> None:
    params["env"][f"NAME{MARK}"] = "x"


PLACES: dict[str, Callable[[Json], None]] = {
    "the program": _append("argv", 0),
    "an argument": _append("argv", 2),
    "the name that the program is told": _append("arg0"),
    "the directory": _append("cwd"),
    "the name of a variable": _name_variable,
    "the value of a variable": _append("env", "VALUE"),
    "the directory of the sandbox": _append("sandbox", "cwd"),
    "a root of the workspace": _append("sandbox", "workspaceRoots", 0),
    "a path below the roots": _append(
        "sandbox", "permissions", "file_system", "entries", 2, "path", "value", "subpath"
    ),
    "a path": _append("sandbox", "permissions", "file_system", "entries", 3, "path", "path"),
    "a pattern": _append("sandbox", "permissions", "file_system", "entries", 4, "path", "pattern"),
}


def _request(workspace: Path) -> Json:
    profile = sandbox(
        entry(ROOT, "read"),
        entry(PROJECT_ROOTS, "write"),
        entry({"type": "special", "value": {"kind": "project_roots", "subpath": "below"}}, "read"),
        entry(workspace / "denied", "deny"),
        entry({"type": "glob_pattern", "pattern": f"{workspace}/*.env"}, "deny"),
        limits={"wallSeconds": 100, "openFiles": 64},
        cwd=workspace.as_uri(),
        workspaceRoots=[workspace.as_uri()],
    )
    return start_params(
        "p",
        *("/bin/sh", "-c", "echo x > ran; true "),
        cwd=str(workspace),
        env={"PATH": "/usr/bin:/bin", "VALUE": "x"},
        arg0="sh",
        sandbox=profile,
    )


@pytest.mark.parametrize("place", PLACES)
async def test_request_with_a_nul_byte_runs_nothing(place: str, territory: Path) -> None:
    workspace = territory / f"n-{list(PLACES).index(place)}"
    (workspace / "below").mkdir(parents=True)
    (workspace / "denied").touch()
    params = _request(workspace)
    changed = copy.deepcopy(params)
    PLACES[place](changed)
    text = json.dumps(changed)
    assert MARK in text
    injected = json.loads(text.replace(MARK, json.dumps(INJECTED)[1:-1]))
    async with session() as client:
        with pytest.raises(WireError):
            await client.call("process/start", injected)
        assert not (workspace / "ran").exists()
        await client.call("process/start", params)
        assert (await client.finish("p")).exit_code == 0
    assert (workspace / "ran").exists()
