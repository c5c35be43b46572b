"""Where the processes of a sandbox can be counted when the kernel does not count those of the user."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.errors import SandboxUnavailable
from paddock.sandbox.enforce import cgroup
from paddock.sandbox.host import cgroup_controller
from paddock.sandbox.host.probe import Probe
from tests.unit.sandbox.fake_kernel import FakeKernel

V1 = "39 31 0:36 {root} /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids"
V2 = "41 31 0:38 {root} /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate"
ELSE = "24 1 254:0 / / rw,relatime - ext4 /dev/root rw\n32 31 0:29 / /c rw - cgroup cgroup rw,cpu"


def host(mount: str, own: str, *writable: str, root: str = "/", **files: str) -> FakeKernel:
    mounts = f"{ELSE}\n{mount.format(root=root)}"
    return FakeKernel(
        files={"/proc/self/mountinfo": mounts, "/proc/self/cgroup": own, **files},
        writable=set(writable),
        uid=0,
    )


@pytest.mark.parametrize(
    ("own", "root", "directory"),
    [
        ("8:pids:/\n0::/", "/", "/sys/fs/cgroup/pids"),
        ("8:cpu,pids:/service/one", "/", "/sys/fs/cgroup/pids/service/one"),
        ("8:pids:/docker/a1/b", "/docker/a1", "/sys/fs/cgroup/pids/b"),
    ],
)
def test_own_group_of_the_first_version_is_found(own: str, root: str, directory: str) -> None:
    assert cgroup_controller.directory(host(V1, own, directory, root=root), "pids") == directory


@pytest.mark.parametrize("blank", ["\r", "\v", "\u2028"])
def test_group_is_found_whatever_others_call_groups_and_mounts(blank: str) -> None:
    directory = f"/sys/fs/cgroup/pids/a{blank}b"
    found = host(f"33 24 0:9 / /s{blank}b rw - tmpfs tmpfs rw\n{V1}", f"8:pids:/a{blank}b\n0::/", directory)
    assert cgroup_controller.directory(found, "pids") == directory


def test_own_group_of_the_second_version_is_used_if_its_children_are_counted() -> None:
    directory = "/sys/fs/cgroup/app"
    counted = {f"{directory}/cgroup.subtree_control": "cpu pids"}
    assert cgroup_controller.directory(host(V2, "0::/app", directory, **counted), "pids") == directory
    uncounted = {f"{directory}/cgroup.subtree_control": "cpu memory"}
    assert cgroup_controller.directory(host(V2, "0::/app", directory, **uncounted), "pids") is None


APP = "/sys/fs/cgroup/app"
SYSTEMD = {"/run/systemd/system": ""}


def whole(processes: str = "7", **files: str) -> FakeKernel:
    """A host with an undivided group of the second version, which this user may divide."""
    there = {
        f"{APP}/cgroup.controllers": "cpu memory pids",
        f"{APP}/cgroup.subtree_control": "",
        f"{APP}/cgroup.procs": processes,
        f"{APP}/cgroup.stat": "nr_descendants 0\nnr_dying_descendants 0",
    }
    return host(V2, "0::/app", APP, f"{APP}/cgroup.subtree_control", **there | files)


def test_group_that_systemd_has_delegated_can_be_divided() -> None:
    kernel = whole(**SYSTEMD)
    assert cgroup_controller.directory(kernel, "memory") is None
    kernel.attributes[APP, "user.delegate"] = b"1"
    assert cgroup_controller.directory(kernel, "memory") == APP
    assert cgroup_controller.directory(kernel, "io") is None
    kernel.writable.remove(f"{APP}/cgroup.subtree_control")
    assert cgroup_controller.directory(kernel, "memory") is None


def test_group_that_somebody_else_has_divided_is_left_alone() -> None:
    kernel = whole(**SYSTEMD)
    kernel.attributes[APP, "trusted.delegate"] = b"1"
    kernel.files[f"{APP}/cgroup.stat"] = "nr_descendants 1\nnr_dying_descendants 0"
    assert cgroup_controller.directory(kernel, "memory") is None
    kernel.files[f"{APP}/{cgroup_controller.LEAF}"] = ""
    assert cgroup_controller.directory(kernel, "memory") == APP


def test_without_systemd_a_group_with_nothing_but_our_processes_can_be_divided() -> None:
    ours = {"/proc/77/stat": "77 (a) b) S 76 1", "/proc/76/stat": f"76 (x) S {os.getpid()} 1"}
    assert cgroup_controller.directory(whole(f"{os.getpid()}\n77", **ours), "memory") == APP
    theirs = {"/proc/77/stat": "77 (a) b) S 1 1"}
    assert cgroup_controller.directory(whole(f"{os.getpid()}\n77", **theirs), "memory") is None
    # The kernel gives no number to a process of another pid namespace.
    assert cgroup_controller.directory(whole(f"{os.getpid()}\n0"), "memory") is None


@pytest.mark.parametrize(
    ("name", "mark", "directory"),
    [(cgroup_controller.LEAF, b"", APP), ("main", b"1", APP), ("main", b"", None)],
    ids=["divided-by-us", "divided-by-systemd", "not-delegated"],
)
def test_once_its_group_is_divided_a_launcher_makes_groups_beside_itself(
    name: str, mark: bytes, directory: str | None
) -> None:
    kernel = whole(**SYSTEMD)
    kernel.files["/proc/self/cgroup"] = f"0::/app/{name}"
    kernel.attributes[APP, "user.delegate"] = mark
    assert cgroup_controller.directory(kernel, "memory") == directory


def test_group_that_can_not_be_written_is_not_used() -> None:
    assert cgroup_controller.directory(host(V1, "8:pids:/"), "pids") is None


def test_host_that_tells_nothing_has_none() -> None:
    assert cgroup_controller.directory(FakeKernel(files={}, uid=0), "pids") is None


def test_root_can_limit_processes_exactly_where_a_group_can_be_made() -> None:
    with_group = Probe(host(V1, "8:pids:/", "/sys/fs/cgroup/pids")).host("")
    assert with_group.can_limit_processes
    assert with_group.pids_cgroup == "/sys/fs/cgroup/pids"
    assert not Probe(host(V1, "8:pids:/")).host("").can_limit_processes


def test_an_ordinary_user_needs_no_group() -> None:
    kernel = host(V1, "8:pids:/", "/sys/fs/cgroup/pids")
    kernel.uid = 1000
    facts = Probe(kernel).host("")
    assert facts.can_limit_processes
    assert facts.pids_cgroup is None


class Keeper:
    """Remembers what it was told of groups."""

    def __init__(self) -> None:
        self.kept: list[Path] = []
        self.left: list[Path] = []

    def keep_group(self, path: Path) -> None:
        self.kept.append(path)

    def release_group(self, path: Path, *, is_removed: bool) -> None:
        self.kept.remove(path)
        if not is_removed:
            self.left.append(path)


def test_groups_that_killed_launchers_have_left_are_removed_when_nothing_is_in_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cgroup, "ABANDONED_S", -1.0)
    (tmp_path / "paddock-left").mkdir()
    (tmp_path / "paddock-used" / "something").mkdir(parents=True)
    (tmp_path / "another").mkdir()
    keeper = Keeper()
    # An ordinary directory gets no files of the controller, so nobody can enter it.
    with pytest.raises(SandboxUnavailable, match="No such file or directory; leave the limits"):
        cgroup.make(cgroup.Bound(str(tmp_path), 3), None, keeper)
    assert not (tmp_path / "paddock-left").exists()
    assert (tmp_path / "paddock-used").exists()
    assert (tmp_path / "another").exists()
    assert (keeper.kept, keeper.left) == ([], [])


@pytest.fixture
def kernel_files(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives every new group the files of a kernel, by their names."""
    make_directory = Path.mkdir

    def fill(names: str) -> None:
        def mkdir(path: Path, *, exist_ok: bool = False) -> None:
            make_directory(path, exist_ok=exist_ok)
            for name in names.split():
                (path / name).touch()

        monkeypatch.setattr(Path, "mkdir", mkdir)

    return fill


V2_FILES = "cgroup.procs pids.max memory.max memory.swap.max memory.events"
V1_FILES = "cgroup.procs memory.limit_in_bytes memory.memsw.limit_in_bytes memory.oom_control"


def test_group_of_the_second_version_is_emptied_before_its_children_get_controllers(
    kernel_files: Callable[[str], None], tmp_path: Path
) -> None:
    kernel_files(V2_FILES)
    (tmp_path / "cgroup.subtree_control").write_text("cpu")
    (tmp_path / "cgroup.procs").write_text("12\n")
    bound = cgroup.Bound(str(tmp_path), 1000)
    cgroup.make(bound, bound, Keeper()).discard()
    assert (tmp_path / cgroup_controller.LEAF / "cgroup.procs").read_text() == "12"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids +memory"


def test_group_that_never_gets_empty_gives_no_controllers(
    kernel_files: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel_files(V2_FILES)
    (tmp_path / "cgroup.subtree_control").write_text("")
    (tmp_path / "cgroup.procs").write_text("12\n")
    write_text, tries = Path.write_text, []

    def write(path: Path, text: str) -> int:
        if path.name == "cgroup.subtree_control":
            tries.append(text)
            raise OSError(errno.EBUSY, "Device or resource busy")
        return write_text(path, text)

    monkeypatch.setattr(Path, "write_text", write)
    with pytest.raises(SandboxUnavailable, match="subtree_control: Device or resource busy"):
        cgroup.make(None, cgroup.Bound(str(tmp_path), 1000), Keeper())
    assert len(tries) == cgroup.DIVIDE_ROUNDS


def test_second_version_has_one_group_for_processes_and_memory(
    kernel_files: Callable[[str], None], tmp_path: Path
) -> None:
    kernel_files(V2_FILES)
    keeper = Keeper()
    groups = cgroup.make(cgroup.Bound(str(tmp_path), 3), cgroup.Bound(str(tmp_path), 1000), keeper)
    [group] = groups.each
    values = {path.name: path.read_text() for path in group.path.iterdir()}
    assert values["pids.max"] == "4"
    assert (values["memory.max"], values["memory.swap.max"]) == ("1000", "0")
    assert list(groups.entrances) == ["group"]
    assert not groups.has_starved()
    (group.path / "memory.events").write_text("oom 2\noom_kill 2\n")
    assert groups.has_starved()
    # Something is in it still, as far as this file system knows.
    groups.discard()
    assert (keeper.kept, keeper.left) == ([], [group.path])


def test_first_version_has_a_group_of_its_own_for_memory(
    kernel_files: Callable[[str], None], tmp_path: Path
) -> None:
    kernel_files(f"{V1_FILES} pids.max")
    for name in ("pids", "memory"):
        os.mkdir(tmp_path / name)
    bounds = cgroup.Bound(str(tmp_path / "pids"), 3), cgroup.Bound(str(tmp_path / "memory"), 1000)
    groups = cgroup.make(*bounds, Keeper())
    assert list(groups.entrances) == ["group", "memory group"]
    assert groups.memory is not None
    for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
        assert (groups.memory.path / name).read_text() == "1000"
    (groups.memory.path / "memory.oom_control").write_text("under_oom 0\noom_kill 0\n")
    assert not groups.has_starved()
    groups.discard()


def test_group_whose_limit_the_kernel_refuses_is_not_used(
    kernel_files: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel_files("cgroup.procs pids.max")
    (tmp_path / "cgroup.subtree_control").write_text("pids")
    write_text, keeper = Path.write_text, Keeper()

    def write(path: Path, text: str) -> int:
        if path.name == "pids.max":
            raise OSError(errno.EINVAL, "Invalid argument")
        return write_text(path, text)

    monkeypatch.setattr(Path, "write_text", write)
    with pytest.raises(SandboxUnavailable, match=r"pids\.max: Invalid argument"):
        cgroup.make(cgroup.Bound(str(tmp_path), 3), None, keeper)
    assert keeper.kept == []


def test_group_without_a_word_of_memory_has_not_starved(
    kernel_files: Callable[[str], None], tmp_path: Path
) -> None:
    kernel_files("cgroup.procs pids.max")
    groups = cgroup.make(cgroup.Bound(str(tmp_path), 3), None, Keeper())
    assert not groups.has_starved()
    assert not any(group.has_starved() for group in groups.each)
    groups.discard()
