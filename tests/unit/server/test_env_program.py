"""What `env` executes for a script is found as `env` finds it, scripts among it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from paddock.intercept.execution import LINES_LIMIT, Execution, ScriptLine
from paddock.intercept.trust import distrust
from paddock.server.env_program import with_env_programs

ENV = "/usr/bin/env"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A directory of PATH that the sandbox can't write; beside it is one that it can."""
    for name in ("tools", "work"):
        (tmp_path / name).mkdir()
    return tmp_path / "tools"


def script(tools: Path, argument: str) -> Execution:
    path = ":".join(map(str, (tools.parent / "work", tools.parent / "missing", tools)))
    return Execution(
        "1",
        "/opt/script",
        "/opt/script",
        ("script",),
        "/",
        environment={"PATH": path},
        interpreters=(ENV,),
        script_lines=(ScriptLine(ENV, argument),),
        is_genuine=True,
    )


def doubt(tools: Path, argument: str) -> str | None:
    work = str(tools.parent / "work")

    def is_writable(path: str) -> bool:
        return any(f"{each}/".startswith(f"{work}/") for each in (path, str(Path(path).resolve())))

    return distrust(with_env_programs(script(tools, argument), is_writable), is_writable)


def make(path: Path, line: str) -> None:
    path.write_text(f"{line}\n")
    path.chmod(0o755)


def test_a_program_or_script_out_of_reach_is_trusted_by_name_and_by_path(tools: Path) -> None:
    make(tools / "script", "#!/bin/sh -e")
    make(tools.parent / "work" / "script", "#!/bin/false")
    (tools / "program").symlink_to("/bin/sh")
    for argument in ("script", "program", "nothing", str(tools / "script")):
        assert doubt(tools, argument) is None, argument


@pytest.mark.parametrize("is_path", [False, True], ids=["name", "path"])
def test_one_that_leads_into_the_sandbox_is_not(tools: Path, is_path: bool) -> None:
    work = tools.parent / "work"
    make(tools / "by-interpreter", f"#!{work}/sh")
    make(tools / "by-argument", f"#!{ENV} {work}/sh")
    make(tools / "by-name", f"#!{ENV} by-link")
    make(tools / "relative", "#!sh")
    (tools / "by-link").symlink_to(work / "sh")
    for name in ("by-interpreter", "by-argument", "by-name", "relative", "by-link"):
        assert doubt(tools, str(tools / name) if is_path else name) is not None, name


def test_every_program_that_path_leads_to_counts(tools: Path) -> None:
    """`env` goes on where the kernel does not execute what it has found."""
    other = tools.parent / "other"
    other.mkdir()
    make(tools / "tool", "#!/no/such/interpreter")
    make(other / "tool", "#!/bin/sh")
    found = script(tools, "tool")
    found = replace(found, environment={"PATH": f"{tools}:{other}:{other}"})
    work = str(tools.parent / "work")

    def is_writable(path: str) -> bool:
        return path.startswith(work)

    assert distrust(with_env_programs(found, is_writable), is_writable) is None
    make(other / "tool", f"#!{work}/sh")
    assert distrust(with_env_programs(found, is_writable), is_writable) is not None


def test_a_circle_of_scripts_is_not_followed_for_ever(tools: Path) -> None:
    make(tools / "one", f"#!{ENV} other")
    make(tools / "other", f"#!{ENV} one")
    assert doubt(tools, "one") == "its first line leads through too many interpreters"
    assert len(with_env_programs(script(tools, "one"), lambda _: False).script_lines) <= 2 * LINES_LIMIT
