"""`paddock doctor`: what it looks at, and what it says about it."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
from pathlib import Path

import pytest

from paddock.cli import diagnosis
from paddock.cli.finding import Level
from paddock.fs import namespace_entry
from paddock.process import spawner
from paddock.rules import loader
from paddock.transport.runtime_directory import VARIABLE
from tests.operators import Operator

NAMES = [
    "python",
    "platform",
    "proc",
    "pidfd",
    "group signals",
    "subreaper",
    "spawner",
    "modules",
    "file workers",
    "uvloop",
    "rules",
    "descriptors",
    "runtime directory",
    "servers",
    "bubblewrap",
    "user namespaces",
    "seccomp",
    "landlock",
    "init",
    "janitor",
    "spare sandboxes",
    "limits",
    "interception",
    "sandbox",
]


def test_a_host_that_runs_these_tests_is_well(operator: Operator) -> None:
    with operator.serving() as server:
        done = operator.paddock("doctor")
        assert (done.returncode, done.stderr) == (0, b"")
        lines = [line for line in done.stdout.decode().splitlines() if not line.startswith(" ")]
        assert [line[6:].split("  ")[0] for line in lines] == NAMES
        by_name = dict(zip(NAMES, lines, strict=True))
        assert by_name["servers"].endswith(f"{server.pid} ({server.url})")
        assert str(operator.runtime) in by_name["runtime directory"]

        told = json.loads(operator.output("doctor", "--json"))
        assert told["ok"] is True
        assert [check["name"] for check in told["checks"]] == NAMES
        assert all(check["level"] != "fail" for check in told["checks"])
        assert all((check["remedy"] is None) == (check["level"] == "ok") for check in told["checks"])


def test_a_failure_has_status_1_and_a_way_out(operator: Operator) -> None:
    operator.runtime.chmod(0o755)
    done = operator.paddock("doctor")
    assert done.returncode == 1
    text = done.stdout.decode()
    assert "fail  runtime directory" in text
    assert f"chmod 700 {operator.runtime}" in text
    assert "→ make one of them yours alone" in text
    assert json.loads(operator.paddock("doctor", "--json").stdout)["ok"] is False


def test_a_missing_spawner_is_told_with_the_way_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spawner, "HELPER_PATH", tmp_path / "paddock-spawner")
    found = diagnosis.check_spawner()
    assert found.level is Level.FAIL
    assert "is missing" in found.detail
    assert "make native" in (found.remedy or "")


def test_a_server_without_compiled_modules_is_told_with_the_way_to_make_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(diagnosis, "COMPILED_MODULES", ("paddock.protocol._missing",))
    found = diagnosis.check_modules()
    assert found.level is Level.WARN
    assert "paddock.protocol._missing" in found.detail
    assert "python3-dev" in (found.remedy or "")


def test_a_library_of_file_workers_that_is_missing_or_damaged_is_told_with_the_way_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert diagnosis.check_worker_library().level is Level.OK
    library = tmp_path / "paddock-worker.so"
    monkeypatch.setattr(namespace_entry, "LIBRARY", library)
    missing = diagnosis.check_worker_library()
    library.write_bytes(b"no library")
    damaged = diagnosis.check_worker_library()
    for found in (missing, damaged):
        assert found.level is Level.WARN
        assert str(library) in found.detail
        assert "make native" in (found.remedy or "")


def test_missing_libraries_for_rules_are_told_with_the_way_to_install_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loader, "find_spec", lambda name: None)
    found = diagnosis.check_rules()
    assert found.level is Level.WARN
    assert "starlark-pyo3" in found.detail
    assert "paddock-exec[rules]" in (found.remedy or "")


def test_rules_that_do_not_load_are_told_with_their_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    directory = tmp_path / "paddock" / "rules"
    directory.mkdir(parents=True)
    (directory / "a.rules").write_text('prefix_rule(["ls"])')
    assert diagnosis.check_rules().level is Level.OK

    (directory / "b.rules").write_text("\nprefix_rule([])")
    found = diagnosis.check_rules()
    assert found.level is Level.WARN
    assert f"{directory}/b.rules:2:1: invalid pattern" in found.detail


def test_a_kernel_without_group_signals_is_only_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pidfd: int, number: int, info: None, flags: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    found = diagnosis.check_group_signals()
    assert (found.level, found.remedy is not None) == (Level.WARN, True)
    assert "6.9" in (found.remedy or "")


def test_a_kernel_without_pidfds_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert diagnosis.check_pidfd().level is Level.FAIL


@pytest.mark.parametrize(("hard", "level"), [(1024, Level.WARN), (4096, Level.OK), (-1, Level.OK)])
def test_few_descriptors_are_a_warning_that_says_what_they_suffice_for(
    monkeypatch: pytest.MonkeyPatch, hard: int, level: Level
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, hard))
    found = diagnosis.check_descriptors()
    assert found.level is level
    if level is Level.WARN:
        assert "about 256 processes" in found.detail


def test_a_server_that_does_not_answer_is_told_of(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(operator.runtime))
    monkeypatch.setattr("paddock.client.operator.ANSWER_TIMEOUT_S", 0.2)
    with operator.serving() as server:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            found = diagnosis.check_servers()
        finally:
            os.kill(server.pid, signal.SIGCONT)
    assert found.level is Level.WARN
    assert "no answer within 0.2 s" in found.detail
