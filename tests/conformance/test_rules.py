"""Every recorded answer of the peer's `codex execpolicy check` is the answer of `paddock rules check`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from paddock.cli.main import main

CASES = Path(__file__).resolve().parent.parent / "data" / "rules" / "cases.json"


@pytest.mark.parametrize("case", json.loads(CASES.read_text()), ids=lambda case: case["name"])
def test_the_answer_is_that_of_the_peer(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in case["files"].items():
        (tmp_path / name).write_text(text)

    try:
        status = main(command_line(case))
    except SystemExit as usage:
        status = int(usage.code or 0)

    printed = capsys.readouterr()
    assert status == case["exit_code"], printed.err
    assert (json.loads(printed.out) if printed.out else None) == expected_answer(case)
    for text in case["stderr_contains"]:
        assert text in printed.err


def command_line(case: dict[str, Any]) -> list[str]:
    files = [word for name in case["order"] for word in ("--rules", name)]
    separator = ["--"] if case.get("separator", True) else []
    return ["rules", "check", *files, *case["flags"], *separator, *case["command"]]


def expected_answer(case: dict[str, Any]) -> Any:
    text = json.dumps(case["json"])
    return json.loads(text.replace("@CWD", os.getcwd()).replace("@HOME", os.path.expanduser("~")))
