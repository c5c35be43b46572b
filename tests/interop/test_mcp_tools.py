"""The MCP inspector before `paddock mcp`, and the conformance runner before its fixtures on the same code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_expected_failures import EXPECTED_FAILURES

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".mcp-tools"
TOKEN = "t" * 40
SERVE = (sys.executable, "-P", "-m", "paddock", "mcp")

LEAST_SUCCESSES = {"2025-11-25": 81, "2026-07-28": 191}
"""Checks that succeed: fewer would mean that the runner did not get to all of them."""

pytestmark = pytest.mark.skipif(
    not (TOOLS / "version").exists(), reason="the MCP tools are not installed (make mcptools)"
)


@pytest.fixture(scope="module")
def workspace() -> Iterator[Path]:
    # Not in /tmp, which the profile of a workspace lets every command write.
    with tempfile.TemporaryDirectory(prefix="paddock-mcp-", dir="/var/tmp") as directory:
        yield Path(directory)


@pytest.fixture(scope="module", params=["open", "token"])
def listening(request: pytest.FixtureRequest, workspace: Path) -> Iterator[tuple[str, list[str]]]:
    """The URL of a server, and what a client needs to get in."""
    arguments: list[str] = []
    if request.param == "token":
        file = workspace.parent / f"{workspace.name}.token"
        file.write_text(TOKEN)
        file.chmod(0o600)
        arguments = ["--listen-token-file", str(file)]
    with subprocess.Popen(
        [*SERVE, "--workspace", str(workspace), "--listen", "http://127.0.0.1:0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        yield url, ["--header", f"Authorization: Bearer {TOKEN}"] if arguments else []
        server.terminate()
    if arguments:
        os.unlink(arguments[1])


def run(program: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(TOOLS / "node"), str(TOOLS / "node_modules/.bin" / program), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )


def inspected(home: Path, method: str, target: list[str], *more: str) -> Any:
    """What the inspector says a server answered."""
    done = run(
        "mcp-inspector", "--cli", "-q", "--format", "json", "--method", method, *more, *target, home=home
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    return answer.get("result", answer)


def shell(workspace: Path) -> list[str]:
    arguments = {"command": "echo sum-$((6*7))", "workdir": str(workspace), "login": False}
    return ["--tool-name", "shell", "--tool-args-json", json.dumps(arguments)]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_lists_and_calls_the_tools_on_standard_streams(
    era: str, workspace: Path, tmp_path: Path
) -> None:
    target = [*SERVE, "--workspace", str(workspace)]
    listed = inspected(tmp_path, "tools/list", target, "--strict", "--protocol-era", era)
    assert [tool["name"] for tool in listed["tools"]][:2] == ["shell", "exec_command"]
    called = inspected(tmp_path, "tools/call", target, *shell(workspace), "--protocol-era", era)
    assert called["structuredContent"]["output"] == "sum-42\n"


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_lists_and_calls_the_tools_over_http(
    era: str, listening: tuple[str, list[str]], workspace: Path, tmp_path: Path
) -> None:
    url, credential = listening
    target = ["--transport", "http", "--server-url", url, *credential, "--stored-auth-only"]
    listed = inspected(tmp_path, "tools/list", target, "--protocol-era", era)
    assert len(listed["tools"]) == 8
    called = inspected(tmp_path, "tools/call", target, *shell(workspace), "--protocol-era", era)
    assert called["structuredContent"]["output"] == "sum-42\n"


@pytest.fixture(scope="module")
def fixture_server() -> Iterator[str]:
    """The URL of the server with the tools that the conformance runner calls by name."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.interop.mcp_fixture"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.mark.parametrize("revision", sorted(EXPECTED_FAILURES))
def test_conformance_runner_finds_nothing_but_what_is_expected(
    revision: str, fixture_server: str, tmp_path: Path
) -> None:
    results = tmp_path / "out"
    options = ["--url", fixture_server, "--requirements", revision, "-o", str(results)]
    done = run("conformance", "server", *options, home=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    checks = [check for file in results.glob("*/checks.json") for check in json.loads(file.read_text())]
    assert sum(check["status"] == "SUCCESS" for check in checks) >= LEAST_SUCCESSES[revision]
    others = {check["id"] for check in checks if check["status"] not in ("SUCCESS", "INFO")}
    assert others == set(EXPECTED_FAILURES[revision])
