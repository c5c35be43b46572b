"""What `paddock doctor` says about sandboxes, on hosts that do not exist."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from paddock.cli import sandbox_diagnosis
from paddock.cli.finding import Finding, Level
from paddock.model.host import Bubblewrap, BwrapCapabilities, HostFacts, Problem
from paddock.sandbox.enforce import init, janitor
from paddock.sandbox.host.kernel import Kernel, Trial

GOOD = HostFacts(
    arch="x86_64",
    kernel=(6, 18),
    bwrap=Bubblewrap(path="/usr/bin/bwrap", capabilities=BwrapCapabilities(perms=True), version="0.11.0"),
    can_unshare=True,
    landlock_abi=7,
)
INIT_RUNS = Finding("init", Level.OK, "runs")
JANITOR_RUNS = Finding("janitor", Level.OK, "runs")
SPARES_WORK = Finding("spare sandboxes", Level.OK, "can be kept")
INTERCEPTS = Finding("interception", Level.OK, "notify")


def told(facts: HostFacts, init_finding: Finding = INIT_RUNS) -> dict[str, Finding]:
    findings = sandbox_diagnosis.findings_of(facts, init_finding, JANITOR_RUNS, SPARES_WORK, INTERCEPTS)
    return {finding.name: finding for finding in findings}


def test_a_good_host_enforces_everything() -> None:
    findings = told(GOOD)
    assert {finding.level for finding in findings.values()} == {Level.OK}
    assert findings["sandbox"].detail.startswith("full")
    assert findings["bubblewrap"].detail == "0.11.0 (/usr/bin/bwrap)"


def test_a_bundled_bubblewrap_is_told_as_such() -> None:
    assert GOOD.bwrap is not None
    bundled = replace(GOOD, bwrap=replace(GOOD.bwrap, is_bundled=True, path="/lib/bwrap"))
    assert told(bundled)["bubblewrap"].detail == "0.11.0 (/lib/bwrap, bundled)"


def test_a_host_without_bubblewrap_refuses_sandboxes_and_says_how_to_get_one() -> None:
    problem = Problem("bubblewrap", "not found", "install it")
    findings = told(replace(GOOD, bwrap=None, can_unshare=False, problems=(problem,)))
    assert findings["bubblewrap"] == Finding("bubblewrap", Level.WARN, "not found", "install it")
    assert findings["user namespaces"].level is Level.WARN
    assert findings["sandbox"].detail.startswith("none")


def test_namespaces_that_can_not_be_made_are_told_with_their_remedy() -> None:
    problem = Problem("user namespaces", "AppArmor restricts them", "sysctl …")
    findings = told(replace(GOOD, can_unshare=False, problems=(problem,)))
    assert findings["user namespaces"].remedy == "sysctl …"
    assert findings["sandbox"].detail.startswith("none")


def test_wsl1_is_named() -> None:
    problem = Problem("WSL1", "it has no namespaces", "use WSL2")
    findings = told(replace(GOOD, bwrap=None, can_unshare=False, problems=(problem,)))
    assert findings["user namespaces"].detail == "it has no namespaces"
    assert findings["bubblewrap"].remedy == "use WSL2"


def test_a_weaker_second_layer_is_partial() -> None:
    findings = told(replace(GOOD, landlock_abi=0, problems=(Problem("landlock", "none", "boot it"),)))
    assert findings["landlock"].remedy == "boot it"
    assert findings["sandbox"].detail.startswith("partial")


@pytest.mark.parametrize(("kernel", "remedy"), [((6, 18), "ordinary user"), ((5, 10), "Linux 5.14")])
def test_a_limit_of_processes_that_can_not_be_had_is_told(kernel: tuple[int, int], remedy: str) -> None:
    finding = told(replace(GOOD, kernel=kernel, can_limit_processes=False))["limits"]
    assert finding.level is Level.WARN
    assert remedy in (finding.remedy or "")


def test_limits_say_whether_memory_can_be_bounded_as_a_whole() -> None:
    without = told(replace(GOOD, memory_cgroup=None))["limits"]
    assert "not totalMemoryBytes, which takes a control group" in without.detail
    having = told(replace(GOOD, memory_cgroup="/sys/fs/cgroup/mine"))["limits"]
    assert having.detail.startswith("total memory, address space, ")
    assert (without.level, having.level) == (Level.OK, Level.OK)


def test_a_missing_init_is_told_with_the_way_to_build_it_and_refuses_sandboxes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(init, "PATH", tmp_path / "paddock-init")
    finding = sandbox_diagnosis.check_init(Kernel())
    assert finding.level is Level.WARN
    assert "No such file or directory" in finding.detail
    assert "make native" in (finding.remedy or "")
    assert told(GOOD, finding)["sandbox"].detail.startswith("none")


def test_the_init_of_these_tests_runs() -> None:
    assert sandbox_diagnosis.check_init(Kernel()).level is Level.OK


def test_an_init_that_needs_mounts_of_its_own_and_may_have_none_is_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Restricted(Kernel):
        def run(self, argv: Sequence[str], descriptors: Sequence[int] = ()) -> Trial:
            return Trial(125, "", "not permitted") if "own-mounts=1" in argv else Trial(0, "", "")

    monkeypatch.setattr(sandbox_diagnosis, "receives_mounts", lambda: False)
    assert sandbox_diagnosis.check_init(Restricted()).level is Level.OK
    monkeypatch.setattr(sandbox_diagnosis, "receives_mounts", lambda: True)
    finding = sandbox_diagnosis.check_init(Restricted())
    assert finding.level is Level.WARN
    assert finding.detail.endswith("not permitted")
    assert "prepare-a-host.md" in (finding.remedy or "")
    assert told(GOOD, finding)["sandbox"].detail.startswith("none")
    assert "apart from the host's" in sandbox_diagnosis.check_init(Kernel()).detail


def test_the_janitor_of_these_tests_runs_and_leaves_nothing(tmp_path: Path) -> None:
    finding = sandbox_diagnosis.check_janitor([str(tmp_path)])
    assert finding.level is Level.OK, finding
    assert [path.name for path in tmp_path.iterdir()] == [janitor.JOURNALS]


def test_a_missing_janitor_is_told_with_the_way_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(janitor, "PROGRAM", str(tmp_path / "paddock-janitor"))
    finding = sandbox_diagnosis.check_janitor([str(tmp_path)])
    assert finding.level is Level.WARN
    assert "No such file or directory" in finding.detail
    assert "make native" in (finding.remedy or "")


def test_a_directory_that_others_can_write_is_told_with_the_way_out(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    finding = sandbox_diagnosis.check_janitor([str(tmp_path)])
    assert finding.level is Level.WARN
    assert finding.remedy == "see runtime directory"


def test_places_that_killed_commands_have_left_are_told(tmp_path: Path) -> None:
    left = tmp_path / ".git"
    left.mkdir()
    left.chmod(0o1700)
    (tmp_path / janitor.JOURNALS).mkdir()
    (tmp_path / janitor.JOURNALS / "left").write_bytes(b"d" + os.fsencode(left) + b"\0d/missing\0d/unfin")
    finding = sandbox_diagnosis.check_janitor([str(tmp_path)])
    assert finding.level is Level.WARN
    assert finding.detail.endswith(f": {left}")
    assert finding.remedy is not None


def test_journals_that_can_not_be_written_are_told(tmp_path: Path) -> None:
    (tmp_path / janitor.JOURNALS).touch()
    finding = sandbox_diagnosis.check_janitor([str(tmp_path)])
    assert finding.level is Level.WARN
    assert finding.remedy is not None


def test_every_warning_has_a_way_out() -> None:
    bad = replace(GOOD, bwrap=None, can_unshare=False, landlock_abi=0, can_limit_processes=False)
    for finding in told(bad).values():
        assert (finding.remedy is None) == (finding.level is Level.OK)
