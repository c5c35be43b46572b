"""The probe, on hosts that do not exist and on this one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from paddock import own_program
from paddock.model.host import Enforcement, HostFacts
from paddock.sandbox.host import probe
from paddock.sandbox.host.probe import Probe
from paddock.sandbox.host.probe_memory import FILE_NAME, Memory
from tests.unit.sandbox.fake_kernel import HELP, FakeKernel, make_program

NOT_BUNDLED = "/nowhere/bwrap"


def facts_of(
    kernel: FakeKernel, *directories: Path, cwd: Path = Path("/work"), **options: object
) -> HostFacts:
    own_program._find.cache_clear()
    probing = Probe(kernel, bundled=NOT_BUNDLED, **options)  # type: ignore[arg-type]
    return probing.host(os.pathsep.join(map(str, directories)), str(cwd))


def without_descriptor(facts: HostFacts) -> HostFacts:
    """The same but for the number under which this probe has opened the program."""
    assert facts.bwrap is not None
    return replace(facts, bwrap=replace(facts.bwrap, fd=None))


@pytest.fixture(name="directory")
def directory_with_bubblewrap(tmp_path: Path) -> Path:
    return make_program(tmp_path / "bin" / "bwrap").parent


# --- which bubblewrap -------------------------------------------------------


def test_a_good_host_has_a_bubblewrap_and_no_problem(directory: Path) -> None:
    facts = facts_of(FakeKernel(), directory)
    assert facts.bwrap is not None
    assert facts.bwrap.path == str(directory / "bwrap")
    assert facts.bwrap.version == "0.11.0"
    capabilities = facts.bwrap.capabilities
    assert (capabilities.perms, capabilities.as_pid_1, capabilities.disable_userns) == (True, True, True)
    assert (facts.can_unshare, facts.can_mount_proc, facts.landlock_abi, facts.problems) == (
        True,
        True,
        7,
        (),
    )
    assert facts.kernel == (6, 18)
    assert probe.enforcement(facts) is Enforcement.FULL


def test_the_first_on_path_is_taken_and_one_in_the_working_directory_never(tmp_path: Path) -> None:
    workspace = make_program(tmp_path / "work" / "bin" / "bwrap").parent
    first = make_program(tmp_path / "first" / "bwrap").parent
    second = make_program(tmp_path / "second" / "bwrap").parent
    found = facts_of(FakeKernel(), workspace, first, second, cwd=tmp_path / "work").bwrap
    assert found is not None
    assert found.path == str(first / "bwrap")


def test_a_link_that_leads_into_the_working_directory_is_not_followed(tmp_path: Path) -> None:
    inside = make_program(tmp_path / "work" / "bwrap")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bwrap").symlink_to(inside)
    assert facts_of(FakeKernel(), tmp_path / "bin", cwd=tmp_path / "work").bwrap is None


def test_a_working_directory_that_is_the_root_hides_nothing(directory: Path) -> None:
    assert facts_of(FakeKernel(), directory, cwd=Path("/")).bwrap is not None


@pytest.mark.parametrize("element", ["", ".", "bin"])
def test_relative_elements_of_path_are_not_searched(
    directory: Path, element: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory.parent if element == "bin" else directory)
    assert Probe(FakeKernel(), bundled=NOT_BUNDLED).host(element, "/work").bwrap is None


def test_one_that_others_could_have_put_there_is_passed_over_and_the_reason_told(directory: Path) -> None:
    directory.chmod(0o777)
    facts = facts_of(FakeKernel(), directory)
    assert facts.bwrap is None
    [problem] = facts.problems
    reason = f"{directory} can be written by others (mode 0777)"
    assert f"passed over {directory}/bwrap: {reason}" in problem.detail
    directory.chmod(0o755)
    assert facts_of(FakeKernel(), directory).bwrap is not None


def test_one_of_the_system_is_preferred_to_others_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = make_program(tmp_path / "system" / "bwrap").parent
    other = make_program(tmp_path / "bin" / "bwrap").parent
    monkeypatch.setattr(own_program, "SYSTEM_PATH", str(system))
    for directories, taken in (((other, system), system), ((other,), other)):
        found = facts_of(FakeKernel(), *directories).bwrap
        assert found is not None
        assert found.path == str(taken / "bwrap")


def test_a_link_of_anybody_to_that_of_the_system_is_good_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = make_program(tmp_path / "system" / "bwrap")
    make_program(tmp_path / "system" / "other")
    linked = tmp_path / "linked"
    linked.mkdir()
    linked.chmod(0o777)
    monkeypatch.setattr(own_program, "SYSTEM_PATH", str(system.parent))
    (linked / "bwrap").symlink_to(system)
    found = facts_of(FakeKernel(), linked).bwrap
    assert found is not None
    assert found.path == str(system)
    (linked / "bwrap").unlink()
    (linked / "bwrap").symlink_to(system.with_name("other"))
    assert facts_of(FakeKernel(), linked).bwrap is None


def test_what_is_not_an_executable_file_is_no_candidate(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "bwrap").write_text("text")
    (tmp_path / "directory" / "bwrap").mkdir(parents=True)
    assert facts_of(FakeKernel(), tmp_path / "plain", tmp_path / "directory").bwrap is None


def test_one_that_is_too_old_is_passed_over_and_named_with_what_it_lacks(directory: Path) -> None:
    facts = facts_of(FakeKernel(help=HELP), directory)
    assert facts.bwrap is None
    [problem] = facts.problems
    assert f"{directory / 'bwrap'} is passed over, because it has no --perms" in problem.detail
    assert "0.5 or newer" in problem.remedy
    assert probe.enforcement(facts) is None


def test_without_any_the_way_to_get_one_is_told() -> None:
    [problem] = facts_of(FakeKernel()).problems
    assert "not found on PATH" in problem.detail
    assert "apt install bubblewrap" in problem.remedy


def test_a_setuid_one_is_told_as_such(directory: Path) -> None:
    (directory / "bwrap").chmod(0o4755)
    found = facts_of(FakeKernel(), directory).bwrap
    assert found is not None
    assert found.is_setuid


# --- what does not work, and why --------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value", "meaning"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts them"),
        ("kernel/unprivileged_userns_clone", "0", "they are switched off"),
        ("user/max_user_namespaces", "0", "none are allowed"),
    ],
)
def test_the_setting_that_forbids_namespaces_is_named_with_its_cure(
    directory: Path, setting: str, value: str, meaning: str
) -> None:
    kernel = FakeKernel(complaint="bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted\n")
    kernel.files[f"/proc/sys/{setting}"] = value
    facts = facts_of(kernel, directory)
    assert facts.bwrap is not None
    assert not facts.can_unshare
    [problem] = facts.problems
    assert problem.name == "user namespaces"
    assert meaning in problem.detail
    assert problem.detail.endswith("loopback: Failed RTM_NEWADDR: Operation not permitted")
    assert f"sysctl {setting.replace('/', '.')}=" in problem.remedy
    assert probe.enforcement(facts) is None


def test_a_container_that_forbids_namespaces_is_told_as_such(directory: Path) -> None:
    kernel = FakeKernel(complaint="bwrap: No permissions to create a new namespace")
    kernel.files["/.dockerenv"] = ""
    [problem] = facts_of(kernel, directory).problems
    assert "in this container" in problem.detail
    assert "--security-opt" in problem.remedy


def test_without_a_known_reason_what_bubblewrap_said_is_told(directory: Path) -> None:
    [problem] = facts_of(
        FakeKernel(complaint="bwrap: setting up uid map: Permission denied"), directory
    ).problems
    assert "bubblewrap says: setting up uid map: Permission denied" in problem.detail


def test_a_setting_that_forbids_is_no_problem_when_it_works_all_the_same(directory: Path) -> None:
    kernel = FakeKernel()
    kernel.files["/proc/sys/kernel/apparmor_restrict_unprivileged_userns"] = "1"
    assert facts_of(kernel, directory).problems == ()


@pytest.mark.parametrize("words", ["Can't mount proc on /newroot/proc", "words that nobody knows"])
def test_a_proc_that_can_not_be_mounted_is_noticed_however_it_is_worded(directory: Path, words: str) -> None:
    facts = facts_of(FakeKernel(proc_complaint=words), directory)
    assert (facts.can_unshare, facts.can_mount_proc) == (True, False)
    assert [problem.name for problem in facts.problems] == ["proc"]
    assert probe.enforcement(facts) is Enforcement.FULL


@pytest.mark.parametrize(
    ("version", "is_wsl1"),
    [
        ("Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com)", True),
        ("Linux version 5.15.0-microsoft-standard-WSL2", False),
        ("Linux version 5.10.0-WSL1-custom", True),
        ("Linux version 6.18.1 (builder@host)", False),
    ],
)
def test_wsl1_is_refused_before_anything_is_tried(directory: Path, version: str, is_wsl1: bool) -> None:
    kernel = FakeKernel()
    kernel.files["/proc/version"] = version
    facts = facts_of(kernel, directory)
    assert (probe.enforcement(facts) is None) is is_wsl1
    if is_wsl1:
        assert kernel.runs == []
        assert [problem.remedy for problem in facts.problems] == ["use WSL2"]


@pytest.mark.parametrize(("abi", "word"), [(0, "not switched on"), (1, "everything"), (3, "TCP ports")])
def test_less_landlock_is_a_partial_enforcement_that_says_what_is_missing(
    directory: Path, abi: int, word: str
) -> None:
    facts = facts_of(FakeKernel(abi=abi), directory)
    assert probe.enforcement(facts) is Enforcement.PARTIAL
    [problem] = facts.problems
    assert problem.name == "landlock"
    assert word in problem.detail


def test_a_machine_without_a_filter_confines_nothing(directory: Path) -> None:
    facts = facts_of(FakeKernel(is_x86=False), directory)
    assert probe.enforcement(facts) is None
    assert [problem.name for problem in facts.problems] == ["seccomp"]


# --- memory -----------------------------------------------------------------


def test_what_was_found_is_not_asked_again_by_the_next_process(directory: Path, tmp_path: Path) -> None:
    first, second = FakeKernel(), FakeKernel()
    learnt = facts_of(first, directory, memory=Memory(tmp_path))
    assert first.runs
    known = facts_of(second, directory, memory=Memory(tmp_path))
    assert without_descriptor(known) == without_descriptor(learnt)
    assert second.runs == []


def test_a_complete_landlock_is_remembered_and_a_lesser_one_is_asked_for_again(
    directory: Path, tmp_path: Path
) -> None:
    for abi in (5, 6):
        memory = tmp_path / str(abi)
        memory.mkdir()
        facts_of(FakeKernel(abi=abi), directory, memory=Memory(memory))
    later = FakeKernel(abi=7)
    assert facts_of(later, directory, memory=Memory(tmp_path / "5")).landlock_abi == 7
    assert facts_of(later, directory, memory=Memory(tmp_path / "6")).landlock_abi == 6
    assert later.runs == []


def test_a_process_with_other_filters_of_system_calls_asks_anew(directory: Path, tmp_path: Path) -> None:
    facts_of(FakeKernel(), directory, memory=Memory(tmp_path))
    filtered = FakeKernel(abi=0)
    filtered.files["/proc/self/status"] = "Name:\tpaddock\nSeccomp:\t2\nSeccomp_filters:\t1"
    assert facts_of(filtered, directory, memory=Memory(tmp_path)).landlock_abi == 0
    assert filtered.runs


def test_another_file_boot_or_time_is_asked_anew(directory: Path, tmp_path: Path) -> None:
    cache = tmp_path
    facts_of(FakeKernel(), directory, memory=Memory(cache))
    later = FakeKernel()
    later.files["/proc/sys/kernel/random/boot_id"] = "two"
    facts_of(later, directory, memory=Memory(cache))
    assert later.runs
    os.utime(directory / "bwrap", (1, 1))
    changed = FakeKernel()
    facts_of(changed, directory, memory=Memory(cache))
    assert changed.runs


def test_a_failure_is_not_remembered_so_that_mending_it_is_noticed(directory: Path, tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    assert not facts_of(FakeKernel(complaint="bwrap: no"), directory, memory=memory).can_unshare
    assert facts_of(FakeKernel(), directory, memory=memory).can_unshare


def test_a_remembered_host_without_proc_still_tells_it(directory: Path, tmp_path: Path) -> None:
    kernel = FakeKernel(proc_complaint="no")
    memory = Memory(tmp_path)
    first, second = (facts_of(kernel, directory, memory=memory) for _ in range(2))
    assert without_descriptor(first) == without_descriptor(second)


# --- this host --------------------------------------------------------------


def test_this_host_is_found_able_to_do_what_the_tests_do(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    facts = probe.host(workspaces=["/nowhere"], memory_directory=tmp_path)
    assert facts.bwrap is not None
    assert facts.arch == os.uname().machine
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert probe.host(workspaces=["/nowhere"], memory_directory=tmp_path) == facts
