from __future__ import annotations

from typing import Any

import pytest

from paddock.errors import ProfileRefused
from paddock.model.host import BwrapCapabilities, Enforcement
from paddock.model.profile import (
    Access,
    AccessEntry,
    ExactPath,
    ExternalProfile,
    GlobPath,
    ManagedProfile,
    MinimalPath,
    NamedPath,
    NetworkMode,
    ProjectRoots,
    RestrictedFileSystem,
    RootPath,
    SpecialPath,
)
from paddock.sandbox.enforce import bwrap
from paddock.sandbox.host.landlock_abi import Port, Right, Scope
from paddock.sandbox.host.placeholder import Placeholder, PlaceholderKind
from paddock.sandbox.plan.explain import explain
from paddock.sandbox.plan.landlock import Ruleset
from paddock.sandbox.plan.mount import Bind, EmptyDirectory, MaskKind, Seal, Shortcut, UnreadableFile
from paddock.sandbox.plan.plan import Plan, PlanInput, confine
from paddock.sandbox.profile.access import Surroundings
from tests.unit.sandbox.imagined_host import CIRCLE, CLOSED, PLACE, ImaginedFiles

FILES = {
    "/w/.git/HEAD": "ref: refs/heads/main",
    "/w/a/b/": "",
    "/w/a/s": "secret",
    "/usr/bin/": "",
    "/bin": "-> /usr/bin",
    "/proc/sys/": "",
}
ROOT_READ = AccessEntry(path=NamedPath(value=RootPath()), access=Access.READ)
ROOTS_WRITE = AccessEntry(path=NamedPath(value=ProjectRoots()), access=Access.WRITE)


def _entry(path: str | SpecialPath, access: Access) -> AccessEntry:
    place = ExactPath(path=path) if isinstance(path, str) else NamedPath(value=path)
    return AccessEntry(path=place, access=access)


def _plan(
    *entries: AccessEntry,
    files: dict[str, str] | None = None,
    matches: tuple[str, ...] = (),
    surroundings: Surroundings | None = None,
    cwd: str = "/w",
    has_proc: bool = True,
    **user: Any,
) -> Plan:
    given = PlanInput(
        surroundings or Surroundings(project_roots=("/w",), minimal=("/bin", "/usr")),
        cwd,
        denied_matches=matches,
        has_proc=has_proc,
        **user,
    )
    look = ImaginedFiles(FILES | (files or {}))
    return confine(ManagedProfile(file_system=RestrictedFileSystem(entries=entries)), given, look)


def _steps(plan: Plan) -> list[str]:
    """The mounts about the workspace, in short."""
    told = []
    for mount in plan.mounts:
        match mount:
            case Bind(path=path, is_writable=is_writable) if path.startswith("/w"):
                told.append(f"{'rw' if is_writable else 'ro'} {path}")
            case EmptyDirectory(path=path, mode=mode) if path.startswith("/w"):
                told.append(f"{mode:03o} {path}")
            case UnreadableFile(path=path):
                told.append(f"no {path}")
            case _:
                pass
    return told


def test_metadata_is_read_only_and_what_is_missing_of_it_is_held() -> None:
    plan = _plan(ROOT_READ, ROOTS_WRITE)
    assert _steps(plan) == [
        "rw /w",
        "ro /w/.agents",
        "ro /w/.aws",
        "ro /w/.codex",
        "ro /w/.git",
        "ro /w/.paddock",
    ]
    assert [place.path for place in plan.placeholders] == [
        "/w/.agents",
        "/w/.aws",
        "/w/.codex",
        "/w/.paddock",
    ]
    assert {place.kind for place in plan.placeholders} == {PlaceholderKind.DIRECTORY}


def test_missing_metadata_is_held_under_project_roots_only() -> None:
    plan = _plan(ROOT_READ, _entry("/tmp", Access.WRITE), files={"/tmp/": "", "/tmp/.git/HEAD": ""})
    assert plan.placeholders == ()
    assert Bind("/tmp/.git", False, "read access, protected metadata") in plan.mounts


def test_metadata_that_the_profile_opens_is_writable() -> None:
    plan = _plan(ROOT_READ, ROOTS_WRITE, _entry(ProjectRoots(subpath=".git"), Access.WRITE))
    assert "ro /w/.git" not in _steps(plan)
    assert "/w/.git" not in {place.path for place in plan.placeholders}


@pytest.mark.parametrize(
    ("place", "own", "is_refused"),
    [
        ("/w/a", (), True),
        ("/w/later", (), True),
        ("/usr/bin", (), False),
        ("/w/a", ("/w/a",), False),
        ("/w/a/b", ("/w/a",), False),
    ],
)
def test_what_the_next_interpreter_of_paddock_would_import_is_not_granted(
    place: str, own: tuple[str, ...], is_refused: bool
) -> None:
    """Unless it is outside of the grant, or kept anyway."""
    searched = ((place, "PYTHONPATH=a leads there", "unset it"),)
    surroundings = Surroundings(project_roots=("/w",), own=own, own_searched=searched)
    if not is_refused:
        assert "rw /w" in _steps(_plan(ROOT_READ, ROOTS_WRITE, surroundings=surroundings))
        return
    with pytest.raises(ProfileRefused, match="because PYTHONPATH=a leads there") as refusal:
        _plan(ROOT_READ, ROOTS_WRITE, surroundings=surroundings)
    assert (refusal.value.subject, refusal.value.remedy) == (f"write access to {place}", "unset it")


def test_a_grant_of_what_paddock_runs_outside_is_refused() -> None:
    surroundings = Surroundings(project_roots=("/w",), own=("/w/a",))
    with pytest.raises(ProfileRefused, match="would let the command change /w/a, which Paddock runs outside"):
        _plan(ROOT_READ, _entry("/w/a/b", Access.WRITE), surroundings=surroundings)


@pytest.mark.parametrize("own", [(), ("/w/tools",)])
def test_link_by_which_paddock_is_reached_is_not_granted_unless_it_is_kept_anyway(
    own: tuple[str, ...],
) -> None:
    surroundings = Surroundings(project_roots=("/w",), own=own, own_links=("/w/tools/paddock",))
    files = {"/w/tools/paddock": "-> /usr/bin"}
    if own:
        steps = _steps(_plan(ROOT_READ, ROOTS_WRITE, files=files, surroundings=surroundings))
        assert "ro /w/tools" in steps
        return
    with pytest.raises(ProfileRefused, match="the link /w/tools/paddock, by which Paddock itself is reached"):
        _plan(ROOT_READ, ROOTS_WRITE, files=files, surroundings=surroundings)


@pytest.mark.parametrize(
    ("entry", "files", "problem"),
    [
        (ROOTS_WRITE, {"/w/rules": "-> /etc/rules"}, "replace the link /w/rules, by which Paddock finds"),
        (_entry("/w/rules", Access.WRITE), {"/w/rules/": ""}, "write rules that Paddock obeys, in /w/rules"),
        (_entry("/w/rules/mine", Access.WRITE), {"/w/rules/": ""}, "write rules that Paddock obeys"),
    ],
)
def test_directory_of_rules_that_paddock_obeys_is_not_granted(
    entry: AccessEntry, files: dict[str, str], problem: str
) -> None:
    surroundings = Surroundings(project_roots=("/w",), rules_directories=("/w/rules",))
    with pytest.raises(ProfileRefused, match=problem):
        _plan(ROOT_READ, entry, files=files | {"/etc/rules/": ""}, surroundings=surroundings)


def test_directory_of_rules_inside_of_a_grant_is_read_only() -> None:
    surroundings = Surroundings(project_roots=("/w",), rules_directories=("/w/rules",))
    plan = _plan(ROOT_READ, ROOTS_WRITE, files={"/w/rules/": ""}, surroundings=surroundings)
    assert "ro /w/rules" in _steps(plan)


def test_another_name_of_a_file_of_paddocks_is_not_granted() -> None:
    """Where such names can't be looked for, nothing can be changed; elsewhere they do no harm."""
    names = Surroundings(project_roots=("/w",), own_names=("/w/a/s",))
    with pytest.raises(ProfileRefused, match=r"write access to /w/a/s would let .* hard link to it"):
        _plan(ROOT_READ, ROOTS_WRITE, surroundings=names)
    assert "ro /w/a/s" not in _steps(_plan(ROOT_READ, surroundings=names))
    unseen = Surroundings(project_roots=("/w",), own_names=("/w/a/b",))
    assert "ro /w/a/b" in _steps(_plan(ROOT_READ, ROOTS_WRITE, surroundings=unseen))


def test_profile_that_leaves_files_alone_protects_none() -> None:
    given = PlanInput(Surroundings(project_roots=("/w",)), "/w")
    plan = confine(ExternalProfile(network=NetworkMode.RESTRICTED), given, ImaginedFiles(FILES))
    assert [rule.path for rule in plan.rules] == ["/"]


def test_directory_that_a_git_file_points_to_is_protected() -> None:
    files = {"/w/.git": "gitdir: /w/main/worktrees/x", "/w/main/worktrees/x/": ""}
    plan = _plan(ROOT_READ, ROOTS_WRITE, files=files)
    assert {"ro /w/.git", "rw /w/main", "rw /w/main/worktrees", "ro /w/main/worktrees/x"} <= set(_steps(plan))


def test_git_file_grants_nothing_however_it_came_about() -> None:
    files = {"/o/.git": "gitdir: /s/in", "/s/in/": "", "/tmp/.git": "gitdir: /w/a/b", "/tmp/": ""}
    writable = (ROOTS_WRITE, _entry("/o", Access.WRITE), _entry("/tmp", Access.WRITE))
    for entries in (writable, (ROOT_READ, *writable, _entry("/s", Access.DENY))):
        plan = _plan(*entries, _entry("/w/a", Access.DENY), files=files)
        assert not [rule for rule in plan.rules if rule.path in ("/s/in", "/w/a/b")]


def test_reopened_directory_is_mounted_on_top_of_the_mask_around_it() -> None:
    plan = _plan(ROOT_READ, ROOTS_WRITE, _entry("/w/a", Access.DENY), _entry("/w/a/b", Access.WRITE))
    steps = _steps(plan)
    assert steps.index("rw /w") < steps.index("111 /w/a") < steps.index("rw /w/a/b")
    assert plan.mounts.index(Seal("/w/a")) > max(
        index for index, mount in enumerate(plan.mounts) if isinstance(mount, Bind)
    )


def test_directories_above_a_denied_file_are_pinned() -> None:
    steps = _steps(_plan(ROOT_READ, ROOTS_WRITE, matches=("/w/a/s",)))
    assert steps[-2:] == ["rw /w/a", "no /w/a/s"]


def test_missing_denied_path_is_held_at_its_first_missing_name() -> None:
    plan = _plan(ROOT_READ, ROOTS_WRITE, _entry("/w/x/y/secret", Access.DENY), _entry("/w/x/z", Access.DENY))
    files = [place.path for place in plan.placeholders if place.kind is PlaceholderKind.FILE]
    assert files == ["/w/x"]


def test_missing_denied_path_where_nothing_can_be_written_needs_nothing() -> None:
    assert _plan(ROOT_READ, _entry("/w/x", Access.DENY)).placeholders == ()


@pytest.mark.parametrize(
    ("entry", "files"),
    [
        (_entry("/w/l/s", Access.DENY), {"/w/l": "-> /w/a"}),
        (_entry("/w/l", Access.READ), {"/w/l": "-> /etc"}),
        (_entry("/w/l", Access.WRITE), {"/w/l": "-> /etc"}),
        (AccessEntry(path=GlobPath(pattern="/w/l/*.env"), access=Access.DENY), {"/w/l": "-> /w/a"}),
    ],
)
def test_rule_that_crosses_a_link_the_command_could_replace_is_refused(
    entry: AccessEntry, files: dict[str, str]
) -> None:
    with pytest.raises(ProfileRefused, match="symlink /w/l"):
        _plan(ROOT_READ, ROOTS_WRITE, entry, files=files | {"/etc/": ""})


def test_rule_about_a_link_in_a_circle_is_refused() -> None:
    with pytest.raises(ProfileRefused, match="/w/l is behind /w/l, a circular link"):
        _plan(ROOT_READ, ROOTS_WRITE, _entry("/w/l", Access.DENY), files={"/w/l": CIRCLE})


def test_denial_in_a_directory_that_can_not_be_searched_is_refused() -> None:
    """An earlier command may have closed it, and the next could open it."""
    with pytest.raises(ProfileRefused, match="may be in /w/c, which can't be searched"):
        _plan(ROOT_READ, ROOTS_WRITE, _entry("/w/c/secret", Access.DENY), files={"/w/c": CLOSED})
    # What the command can't change need not be known.
    assert _plan(ROOT_READ, _entry("/w/c/secret", Access.DENY), files={"/w/c": CLOSED}).placeholders == ()


def test_denial_that_is_about_existing_files_holds_nothing() -> None:
    entry = AccessEntry(path=ExactPath(path="/w/x"), access=Access.DENY, missing_path_behavior="skip")
    assert "/w/x" not in [place.path for place in _plan(ROOT_READ, ROOTS_WRITE, entry).placeholders]


def test_metadata_that_is_a_link_is_refused() -> None:
    with pytest.raises(ProfileRefused, match=r"/w/\.codex is protected but a symlink"):
        _plan(ROOT_READ, ROOTS_WRITE, files={"/w/.codex": "-> /w/a"})


def test_metadata_that_is_a_link_outside_the_project_is_nobodys_to_protect() -> None:
    files = {"/tmp/.git": "-> /w/a", "/tmp/": ""}
    plan = _plan(ROOT_READ, ROOTS_WRITE, _entry("/tmp", Access.WRITE), files=files)
    assert not [rule for rule in plan.rules if rule.path in ("/tmp/.git", "/w/a")]


def test_view_without_the_root_has_the_links_that_lead_to_what_is_granted() -> None:
    plan = _plan(_entry(MinimalPath(), Access.READ), _entry("/w", Access.READ))
    assert plan.mounts[0] == EmptyDirectory("/", 0o755, "only what is granted is there")
    assert Shortcut("/bin", "/usr/bin") in plan.mounts
    assert plan.mounts[-1] == Seal("/")


def test_working_directory_that_can_not_be_seen_is_refused() -> None:
    with pytest.raises(ProfileRefused, match="working directory /home"):
        _plan(_entry("/w", Access.READ), cwd="/home")
    assert _plan(_entry("/w/a", Access.READ), cwd="/w").cwd == "/w"


def test_nothing_can_be_changed_in_proc_by_root() -> None:
    assert Seal("/proc") in _plan(ROOT_READ, is_root=True).mounts
    assert Seal("/proc") not in _plan(ROOT_READ).mounts
    assert Bind("/proc/sys", False, "settings of the kernel") in _plan(ROOT_READ).mounts


def test_device_nodes_that_the_command_would_own_are_others_or_read_only() -> None:
    files = {"/dev/null": "", "/dev/shm/": ""}
    others = _plan(ROOT_READ)
    assert (others.has_ready_devices, others.read_only) == (False, ())
    roots = _plan(ROOT_READ, owned_nodes=("/dev/null",))
    assert (roots.has_ready_devices, roots.read_only) == (True, ())
    words = bwrap.options(roots, BwrapCapabilities(), bwrap.HostFiles("/init", "/void"))
    # A name that no /dev has: where none was made ready, bubblewrap fails and shows nothing of the host's.
    assert words[words.index("--dev-bind") :][:3] == ["--dev-bind", "/dev/paddock", "/dev"]
    assert "--dev" not in words
    denied = _plan(ROOT_READ, _entry("/dev/shm", Access.DENY), files=files, owned_nodes=("/dev/null",))
    assert (denied.has_ready_devices, denied.read_only) == (False, ("/dev", "/dev/null"))
    for path in ("/dev", "/dev/shm"):
        granted = _plan(ROOT_READ, _entry(path, Access.WRITE), files=files, owned_nodes=("/dev/null",))
        assert (granted.has_ready_devices, granted.read_only) == (False, ("/dev/null",))


@pytest.mark.parametrize("has_proc", [True, False])
def test_host_processes_are_hidden_with_and_without_proc(has_proc: bool) -> None:
    plan = _plan(ROOT_READ, _entry("/proc", Access.WRITE), has_proc=has_proc)
    assert not any(isinstance(mount, Bind) and mount.path == "/proc" for mount in plan.mounts)
    is_empty = EmptyDirectory("/proc", 0o555, "no process of the host is shown") in plan.mounts
    assert is_empty is not has_proc


def test_kernel_settings_are_covered_even_where_everything_can_be_written() -> None:
    given = PlanInput(Surroundings(project_roots=("/w",)), "/w")
    look = ImaginedFiles(FILES | {"/sys/": ""})
    plan = confine(ExternalProfile(network=NetworkMode.RESTRICTED), given, look)
    read_only = [mount.path for mount in plan.mounts if isinstance(mount, Bind) and not mount.is_writable]
    assert read_only == ["/sys", "/proc/sys"]


def test_what_paddock_keeps_is_hidden_under_every_profile() -> None:
    surroundings = Surroundings(project_roots=("/w",), private=("/w/a",))
    assert "000 /w/a" in _steps(_plan(ROOT_READ, ROOTS_WRITE, surroundings=surroundings))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("/w/link/p", r"write access to /w would let .* by a link at /w/link"),
        ("/w/a/../p", r"write access to /w would let .* by a link at /w/a"),
        ("/tmp/link/p", "the link /tmp/link leads Paddock to its private files"),
    ],
)
def test_way_to_what_paddock_keeps_is_nothing_that_a_command_can_choose(name: str, problem: str) -> None:
    surroundings = Surroundings(project_roots=("/w",), private=("/home/p",), private_names=(name,))
    files = {"/tmp/": "", "/home/p/": "", "/w/p/": ""} | dict.fromkeys(("/w/link", "/tmp/link"), "-> /home")
    with pytest.raises(ProfileRefused, match=problem):
        _plan(ROOT_READ, ROOTS_WRITE, files=files, surroundings=surroundings)
    everything = _entry(RootPath(), Access.WRITE)
    plan = _plan(everything, files=files, surroundings=surroundings)
    assert "/home/p" in [mask.path for mask in plan.masks]


def test_way_to_what_paddock_keeps_may_have_links_of_the_system() -> None:
    name = "/bin/../run/p"
    surroundings = Surroundings(project_roots=("/w",), private=("/usr/run/p",), private_names=(name,))
    plan = _plan(ROOT_READ, ROOTS_WRITE, files={"/usr/run/p/": ""}, surroundings=surroundings)
    assert "/usr/run/p" in [mask.path for mask in plan.masks]


def _with_linked_root(*entries: AccessEntry, real: str = "/home/w") -> Plan:
    surroundings = Surroundings(project_roots=(real,), linked_roots=(("/tmp/l/w", real),))
    files = {"/tmp/": "", "/tmp/l": "-> /home", "/home/w/": ""}
    return _plan(ROOT_READ, ROOTS_WRITE, *entries, files=files, surroundings=surroundings, cwd=real)


def test_project_root_behind_a_link_that_the_command_could_have_made_is_refused() -> None:
    with pytest.raises(ProfileRefused, match="crosses the symlink /tmp/l, which the command could replace"):
        _with_linked_root(_entry("/tmp", Access.WRITE))


def test_project_root_that_leads_elsewhere_by_now_is_refused() -> None:
    with pytest.raises(ProfileRefused, match="leads somewhere else"):
        _with_linked_root(real="/w")


def test_project_root_that_has_become_a_link_since_it_was_resolved_is_refused() -> None:
    surroundings = Surroundings(project_roots=("/tmp/l/w",))
    files = {"/tmp/": "", "/tmp/l": "-> /home", "/home/w/": ""}
    with pytest.raises(ProfileRefused, match="leads somewhere else"):
        _plan(ROOT_READ, ROOTS_WRITE, files=files, surroundings=surroundings, cwd="/home/w")


def test_project_root_behind_a_link_that_no_command_can_make_is_used() -> None:
    mounts = _with_linked_root().mounts
    assert "/home/w" in [mount.path for mount in mounts if isinstance(mount, Bind) and mount.is_writable]


def test_every_mount_that_takes_something_away_is_a_mask_and_those_of_a_directory_stand_together() -> None:
    surroundings = Surroundings(project_roots=("/w",), private=("/w/p",))
    plan = _plan(
        *(ROOT_READ, ROOTS_WRITE, _entry("/usr/x", Access.DENY), _entry("/usr/rw", Access.WRITE)),
        files={"/w/p/": "", "/usr/x": "secret", "/usr/rw/": ""},
        matches=("/w/a/s",),
        surroundings=surroundings,
    )
    assert [mask.path for mask in plan.masks] == [
        "/usr/x",
        *("/usr/rw/.git", "/usr/rw/HEAD"),
        *("/w/.agents", "/w/.aws", "/w/.codex", "/w/.git", "/w/.paddock", "/w/a", "/w/p"),
        "/w/a/s",
    ]
    assert [mask.path for mask in plan.masks if mask.kind is MaskKind.PRIVATE] == ["/w/p"]
    # What is only kept from being read, and what leads there, may be replaced by its owner.
    assert [mask.path for mask in plan.masks if mask.kind is MaskKind.MASK] == ["/usr/x", "/w/a", "/w/a/s"]


def test_place_of_others_that_the_profile_opens_is_held_and_can_not_be_moved() -> None:
    opened = _entry(ProjectRoots(subpath=".codex"), Access.WRITE)
    plan = _plan(ROOT_READ, ROOTS_WRITE, opened, files={"/w/.codex": PLACE})
    assert Placeholder("/w/.codex", PlaceholderKind.DIRECTORY) in plan.placeholders
    assert "rw /w/.codex" in _steps(plan)
    assert "/w/.codex" not in [mask.path for mask in plan.masks]
    alone = _plan(ROOT_READ, ROOTS_WRITE, opened)
    assert "/w/.codex" not in [place.path for place in alone.placeholders]


def test_place_that_others_hold_for_another_reason_is_taken_as_it_is() -> None:
    plan = _plan(ROOT_READ, ROOTS_WRITE, _entry("/w/x", Access.DENY), files={"/w/x": PLACE})
    assert Placeholder("/w/x", PlaceholderKind.DIRECTORY) in plan.placeholders
    assert "000 /w/x" in _steps(plan)
    alone = _plan(ROOT_READ, ROOTS_WRITE, _entry("/w/x", Access.DENY))
    assert Placeholder("/w/x", PlaceholderKind.FILE) in alone.placeholders
    assert "no /w/x" in _steps(alone)


def test_denied_metadata_that_is_missing_is_held_as_what_other_commands_need_there() -> None:
    plan = _plan(ROOT_READ, ROOTS_WRITE, _entry("/w/.codex", Access.DENY))
    assert Placeholder("/w/.codex", PlaceholderKind.DIRECTORY) in plan.placeholders


def test_bubblewrap_is_told_in_the_order_of_the_plan() -> None:
    plan = _plan(ROOT_READ, ROOTS_WRITE, _entry("/w/a/s", Access.DENY))
    words = bwrap.options(plan, BwrapCapabilities(), bwrap.HostFiles("/init", "/void"))
    assert words[: words.index("--ro-bind")] == [
        *("--as-pid-1", "--new-session", "--unshare-user", "--unshare-pid"),
        *("--unshare-ipc", "--unshare-net"),
    ]
    assert " ".join(words).count("--ro-bind /void /w/a/s") == 1
    assert words[-4:] == ["--cap-drop", "ALL", "--chdir", "/w"]


def test_view_that_is_too_large_for_bubblewrap_is_refused() -> None:
    directories = [f"/d{number}" for number in range(3001)]
    entries = (_entry(path, Access.WRITE) for path in directories)
    plan = _plan(ROOT_READ, *entries, files={f"{path}/": "" for path in directories})
    with pytest.raises(ProfileRefused, match="more than bubblewrap can make"):
        bwrap.options(plan, BwrapCapabilities(), bwrap.HostFiles("/init", "/void"))


def test_plan_in_words_has_no_words_of_a_file_name() -> None:
    name = "/w/a\x1b]0;x\a\n  read-write  /etc"
    text = explain(_plan(ROOT_READ, ROOTS_WRITE, _entry(name, Access.DENY)), Enforcement.FULL)
    assert r"/w/a\u001b]0;x\u0007\n  read-write  /etc" in text
    assert all(line.isprintable() for line in text.splitlines())
    assert not any(line.strip().startswith("read-write  /etc") for line in text.splitlines())


def test_explanation_names_every_path_and_why() -> None:
    text = explain(_plan(ROOT_READ, ROOTS_WRITE, _entry("/w/a", Access.DENY)), Enforcement.FULL)
    for line in (
        "read-only   /  (read access to everything)",
        "read-write  /w  (write access, :project_roots)",
        "empty       /w/a  (deny access, /w/a; mode 000)",
        "read-only   /w/.git  (read access, protected metadata)",
    ):
        assert line in text


def test_explanation_of_landlock_alone_names_what_stays_writable() -> None:
    ruleset = Ruleset(Right(0), Port(0), Scope(0), ("/w", "/tmp"))
    text = explain(_plan(ROOT_READ, ROOTS_WRITE), Enforcement.PARTIAL, ruleset)
    for line in ("Landlock alone, without namespaces", "  read-write  /w\n", "  read-write  /tmp\n"):
        assert line in text
    assert "read-only" not in text


def test_explanation_names_links_and_the_first_process_where_there_is_no_proc() -> None:
    text = explain(_plan(_entry(MinimalPath(), Access.READ), has_proc=False, cwd="/"), Enforcement.FULL)
    assert "link        /bin  (to /usr/bin)" in text
    assert "(the first process)" in text
