"""What a server tells people when it starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.cli import own_command
from tests.operators import PATIENCE_S, Operator

ROOT = Path(__file__).resolve().parents[3]


def test_the_command_that_make_run_prints_works_as_printed(operator: Operator) -> None:
    # Of a make that runs the tests: it would have the inner one print directories, and take its ARGS.
    from_make = ("MAKEFLAGS", "MAKELEVEL", "ARGS")
    usual = {name: value for name, value in os.environ.items() if name not in from_make}
    env = usual | operator.env | {"PATH": os.defpath}
    with subprocess.Popen(
        ["make", "run"], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            assert server.stdout.readline().startswith("ws://127.0.0.1:")
            while not (told := re.search(r"try: (.*)", server.stderr.readline())):
                pass
            done = subprocess.run(
                told[1], shell=True, cwd="/", env=env, capture_output=True, timeout=PATIENCE_S, check=False
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, b"hello\n", b"")
        finally:
            server.send_signal(signal.SIGTERM)


def test_it_is_called_by_its_name_where_that_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "paddock"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_command.own_command() == "paddock"
    monkeypatch.setenv("PATH", "/nonexistent")
    assert own_command.own_command() == str(program)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bin/paddock"])
    assert own_command.own_command() == str(program)
    monkeypatch.setattr(sys, "argv", ["/x/paddock/__main__.py"])
    assert own_command.own_command().endswith(" -m paddock")
