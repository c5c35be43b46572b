"""Where the processes of a sandbox can be counted when the kernel does not count those of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.errors import SandboxUnavailable
from paddock.sandbox import cgroup
from paddock.sandbox.probe import Probe
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
    assert cgroup.directory(host(V1, own, directory, root=root)) == directory


def test_own_group_of_the_second_version_is_used_if_its_children_are_counted() -> None:
    directory = "/sys/fs/cgroup/app"
    counted = {f"{directory}/cgroup.subtree_control": "cpu pids"}
    assert cgroup.directory(host(V2, "0::/app", directory, **counted)) == directory
    uncounted = {f"{directory}/cgroup.subtree_control": "cpu memory"}
    assert cgroup.directory(host(V2, "0::/app", directory, **uncounted)) is None


def test_group_that_can_not_be_written_is_not_used() -> None:
    assert cgroup.directory(host(V1, "8:pids:/")) is None


def test_host_that_tells_nothing_has_none() -> None:
    assert cgroup.directory(FakeKernel(files={}, uid=0)) is None


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


def test_groups_that_killed_launchers_have_left_are_removed_when_nothing_is_in_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cgroup, "ABANDONED_S", -1.0)
    (tmp_path / "paddock-left").mkdir()
    (tmp_path / "paddock-used" / "something").mkdir(parents=True)
    (tmp_path / "another").mkdir()
    # An ordinary directory gets no files of the controller, so nobody can enter it.
    with pytest.raises(SandboxUnavailable, match="No such file or directory; leave the limit out"):
        cgroup.make(str(tmp_path), 3)
    assert not (tmp_path / "paddock-left").exists()
    assert (tmp_path / "paddock-used").exists()
    assert (tmp_path / "another").exists()
