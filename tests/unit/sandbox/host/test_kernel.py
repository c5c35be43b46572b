"""What the host's kernel is asked, on the real one."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from paddock.sandbox.host import kernel
from paddock.sandbox.host.kernel import Kernel
from tests.life_line import LifeLine


def test_program_that_can_not_be_run_is_a_trial_that_failed() -> None:
    trial = Kernel().run(["/nowhere/program"])
    assert (trial.status, trial.stderr) == (None, "No such file or directory")
    assert Kernel().run(["/bin/sh", "-c", "exit 3"]).status == 3


def test_program_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "TRIAL_TIMEOUT_S", 0.01)
    trial = Kernel().run(["/bin/sleep", "1000"])
    assert (trial.status, trial.stderr) == (None, "no answer within 0.01 s")


async def test_program_that_is_given_up_takes_its_children_along(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernel, "TRIAL_TIMEOUT_S", 0.5)
    with closing(LifeLine(tmp_path)) as life_line:
        trial = await asyncio.to_thread(
            Kernel().run, ["/bin/sh", "-c", f"{life_line.hold} sleep 1000 >/dev/null 2>&1 & wait"]
        )
        assert trial.status is None
        await life_line.cut()


def test_setting_that_is_not_there_has_no_text(tmp_path: Path) -> None:
    (tmp_path / "setting").write_text(" 1\n")
    (tmp_path / "link").symlink_to("nowhere")
    assert Kernel().text(str(tmp_path / "setting")) == "1"
    assert Kernel().text(str(tmp_path / "missing")) is None
    assert Kernel().exists(str(tmp_path / "link"))
    assert not Kernel().exists(str(tmp_path / "missing"))


def test_attribute_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert Kernel().attribute(str(tmp_path), "user.none") is None
    assert Kernel().attribute(str(tmp_path / "missing"), "user.none") is None
